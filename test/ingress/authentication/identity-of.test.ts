import test from 'ava';
import { errors, type JWTPayload } from 'jose';
import { identityOf } from '../../../ingress/authentication/identity-of.ts';
import { usualTokenRules } from '../../support/token-rules.ts';

const now = 1_800_000_000;

/** The account, or which claim is refused. */
function outcomeOf(claims: JWTPayload, rules: Partial<Parameters<typeof identityOf>[1]> = {}): string {
  try {
    const token = { claims: { sub: 'alice', exp: now + 600, ...claims }, type: undefined };
    return identityOf(token, { ...usualTokenRules, ...rules }, now).account;
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

test('with a list of clients a token must name one of them in the first of client_id, azp, cid and appid', (t) => {
  const rules = { clients: ['console', 'cli'] };
  const accepted = [{ client_id: 'cli' }, { azp: 'console' }, { cid: 'cli' }, { appid: 'cli' }];
  for (const claims of [...accepted, { client_id: 'cli', azp: 'other' }, { client_id: null, cid: 'cli' }]) {
    t.is(outcomeOf(claims, rules), 'user:alice', JSON.stringify(claims));
  }
  const others = [
    {},
    { client_id: 'other' },
    { azp: 'other' },
    { client_id: 'other', azp: 'cli' },
    { azp: 'other', appid: 'cli' },
  ];
  for (const claims of [...others, { client_id: ['cli'] }, { azp: 7 }, { client_id: 'CLI' }, { client_id: '' }]) {
    t.is(outcomeOf(claims, rules), 'client_id', JSON.stringify(claims));
  }
});

const identityFor = (claims: JWTPayload, rules: Partial<Parameters<typeof identityOf>[1]>) =>
  identityOf(
    { claims: { sub: 'alice', exp: now + 600, ...claims }, type: undefined },
    { ...usualTokenRules, ...rules },
    now,
  );

test('an operator obeys one of the rules: words of a text, items of a list, keys of an object, at a path', (t) => {
  const isOperator = (claims: JWTPayload, claim: string, value = 'ops') =>
    identityFor(claims, {
      operators: [
        { claim: 'other', value: 'x' },
        { claim, value },
      ],
    }).isOperator;
  const roles = { realm_access: { roles: ['ops'] } };
  const named = {
    'https://example.com/roles': ['ops'],
    'cognito:groups': ['a', 'ops'],
    'urn:zitadel:iam:org:project:roles': { ops: { 1: 'x' } },
    'a.b': 'ops',
    resource_access: { 'my.client': { roles: ['ops'] } },
  };
  const accepted: [JWTPayload, string][] = [
    [{ roles: 'a ops' }, 'roles'],
    [{ roles: ['ops'] }, 'roles'],
    [{ roles: { ops: true } }, 'roles'],
    [roles, 'realm_access.roles'],
    [named, 'https://example.com/roles'],
    [named, 'cognito:groups'],
    [named, 'urn:zitadel:iam:org:project:roles'],
    [named, 'a.b'],
    [named, 'resource_access.my.client.roles'],
    [{ 'realm_access.roles': 'ops', realm_access: { roles: [] } }, 'realm_access.roles'],
  ];
  for (const [claims, claim] of accepted) t.true(isOperator(claims, claim), claim);
  t.true(isOperator({ groups: ['Service Admins'] }, 'groups', 'Service Admins'));
  const refused: [JWTPayload, string][] = [
    [{}, 'roles'],
    [{ roles: 'opsx' }, 'roles'],
    [{ roles: ['a ops'] }, 'roles'],
    [{ roles: [['ops']] }, 'roles'],
    [{ roles: true }, 'roles'],
    [{ roles: null }, 'roles'],
    ...[false, null, 0, ''].map((ops): [JWTPayload, string] => [{ roles: { ops } }, 'roles']),
    [{ realm_access: ['roles'] }, 'realm_access.roles'],
    [{ 'realm_access.roles': [], realm_access: { roles: ['ops'] } }, 'realm_access.roles'],
    [{ a: 'ops' }, 'constructor'],
    [{ a: {} }, 'a.constructor.name'],
  ];
  for (const [claims, claim] of refused) t.false(isOperator(claims, claim), `${JSON.stringify(claims)} ${claim}`);
  t.false(isOperator({ roles: {} }, 'roles', 'constructor'), 'inherited');
  t.false(isOperator({ roles: {} }, 'roles', '__proto__'), 'inherited');
});

test('the account is named by the claim that the setting names, which must be a text of 1 to 255 characters', (t) => {
  t.is(outcomeOf({ oid: 'o-1' }, { accountClaim: 'oid' }), 'user:o-1');
  t.is(outcomeOf({ ids: { user_id: 'u' } }, { accountClaim: 'ids.user_id' }), 'user:u');
  for (const oid of [undefined, null, 7, '', 'x'.repeat(256), '\ud800', ['o']]) {
    t.is(outcomeOf({ oid }, { accountClaim: 'oid' }), 'oid', String(oid));
  }
});

test('the display name is one line of at most 100 characters, and none unless the setting names its claim', (t) => {
  const nameOf = (name: unknown) => identityFor({ name }, { nameClaim: 'name' }).name;
  t.is(identityFor({ name: 'Alice' }, {}).name, undefined);
  t.is(nameOf(' Alice\n\u0000 Example\u2028'), 'Alice Example');
  t.is(nameOf('ab\u202ecd\u2066'), 'ab cd', 'it cannot reverse the text around it');
  t.is(nameOf('x\ud800'), 'x\ufffd');
  t.is(nameOf('😀'.repeat(200)), '😀'.repeat(100));
  t.is(nameOf('a'.repeat(1_000_000))?.length, 100);
  for (const none of [undefined, null, '', ' \n', 7, ['Alice'], { name: 'Alice' }]) t.is(nameOf(none), undefined);
});
