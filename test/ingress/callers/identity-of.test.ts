import test from 'ava';
import { errors, type JWTPayload } from 'jose';
import { identityOf } from '../../../ingress/callers/identity-of.ts';

const now = 1_800_000_000;
const usual = { clients: undefined, tokenLifeMaxS: 86_400 };

/** The account, or which claim is refused. */
function outcomeOf(claims: JWTPayload, rules: Partial<Parameters<typeof identityOf>[1]> = {}): string {
  try {
    return identityOf({ sub: 'alice', exp: now + 600, ...claims }, { ...usual, ...rules }, now).account;
  } catch (error) {
    return error instanceof errors.JWTClaimValidationFailed ? error.claim : String(error);
  }
}

test('a token that requires proof of possession is refused, with any proof', (t) => {
  for (const cnf of [{ jkt: 'a thumbprint' }, { 'x5t#S256': 'a certificate' }, {}, null, 'x']) {
    t.regex(outcomeOf({ cnf }), /"cnf"/);
  }
});

test('a token may live as long as the setting allows, and not one second longer', (t) => {
  t.is(outcomeOf({ iat: now - 400, exp: now + 600 }, { tokenLifeMaxS: 1_000 }), 'user:alice');
  t.is(outcomeOf({ iat: now - 401, exp: now + 600 }, { tokenLifeMaxS: 1_000 }), 'exp');
  t.not(outcomeOf({ exp: Number.POSITIVE_INFINITY }), 'user:alice');
});

test('a token without a time of issue, or with one in the future, counts as issued now', (t) => {
  for (const issued of [{}, { iat: now + 5_000 }]) {
    t.is(outcomeOf({ ...issued, exp: now + 1_000 }, { tokenLifeMaxS: 1_000 }), 'user:alice');
    t.is(outcomeOf({ ...issued, exp: now + 1_001 }, { tokenLifeMaxS: 1_000 }), 'exp');
  }
});

test('without a list of clients a token of any client is accepted', (t) => {
  for (const claims of [{}, { client_id: 'other' }, { azp: 7 }]) t.is(outcomeOf(claims), 'user:alice');
});

test('with a list of clients a token must name one of them in client_id or, without it, in azp', (t) => {
  const rules = { clients: ['console', 'cli'] };
  for (const claims of [{ client_id: 'cli' }, { azp: 'console' }, { client_id: 'cli', azp: 'other' }]) {
    t.is(outcomeOf(claims, rules), 'user:alice', JSON.stringify(claims));
  }
  const others = [{}, { client_id: 'other' }, { azp: 'other' }, { client_id: 'other', azp: 'cli' }];
  for (const claims of [...others, { client_id: ['cli'] }, { azp: 7 }, { client_id: 'CLI' }, { client_id: '' }]) {
    t.is(outcomeOf(claims, rules), 'client_id', JSON.stringify(claims));
  }
});
