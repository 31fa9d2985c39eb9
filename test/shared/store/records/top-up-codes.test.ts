import test from 'ava';
import {
  claimCode,
  markApplied,
  revokeCode,
  shownStateOf,
  type TopUpCode,
} from '../../../../shared/store/records/top-up-codes.ts';
import { codeTime, topUpCodeOf } from '../top-up-code-records.ts';

const at = (ms: number) => new Date(codeTime.getTime() + ms);
const redeemed = { account: 'user:ann', at: codeTime, from: '203.0.113.9' };
const revoked = { by: 'user:olga', at: codeTime, from: '198.51.100.7' };
const claim = (account = 'user:ann', time = codeTime) => claimCode({ account, at: time, from: '203.0.113.9' });

const codes = {
  unused: topUpCodeOf({ expiresAt: at(1) }),
  claimed: topUpCodeOf({ state: 'claimed', redeemed, expiresAt: at(1) }),
  redeemed: topUpCodeOf({ state: 'redeemed', redeemed, appliedAt: at(5) }),
  revoked: topUpCodeOf({ state: 'revoked', revoked }),
} satisfies Record<TopUpCode['state'], TopUpCode>;

const conflicts = { name: 'ApiError', code: 'CONFLICT' };

test('an unused code is claimed until the millisecond before its end', (t) => {
  const next = { ...codes.unused, state: 'claimed', redeemed };
  t.deepEqual(claim()(codes.unused), { result: next, next } as ReturnType<ReturnType<typeof claim>>);
  t.like(
    t.throws(() => claim('user:ann', at(1))(codes.unused)),
    { ...conflicts, message: 'This code has expired.' },
  );
  t.like(claim('user:ann', at(1e12))(topUpCodeOf()).next, { state: 'claimed' });
});

test('the account that has a code keeps it, also after its end; no other account gets it', (t) => {
  for (const code of [codes.claimed, codes.redeemed]) {
    t.deepEqual(claim('user:ann', at(1e9))(code), { result: code });
    t.like(
      t.throws(() => claim('user:bob')(code)),
      { ...conflicts, message: 'Another account has redeemed this code.' },
    );
  }
});

test('a revoked code is not claimed', (t) => {
  t.like(
    t.throws(() => claim()(codes.revoked)),
    { ...conflicts, message: 'This code was revoked.' },
  );
});

test('a claimed code is marked once; any other stays as it is', (t) => {
  t.like(markApplied(at(9))(codes.claimed).next, { state: 'redeemed', appliedAt: at(9), redeemed });
  for (const code of [codes.unused, codes.redeemed, codes.revoked])
    t.deepEqual(markApplied(at(9))(code), { result: code });
});

test('an unused code is revoked once, also after its end; one that an account has is not', (t) => {
  const next = { ...codes.unused, state: 'revoked' as const, revoked };
  t.deepEqual(revokeCode(revoked)(codes.unused), { result: { code: next, isNew: true }, next });
  const later = { by: 'user:otto', at: at(1e9), from: '::1' };
  t.like(revokeCode(later)(codes.unused).next, { revoked: later });
  t.deepEqual(revokeCode(later)(codes.revoked), { result: { code: codes.revoked, isNew: false } });
  for (const code of [codes.claimed, codes.redeemed])
    t.like(
      t.throws(() => revokeCode(later)(code)),
      conflicts,
    );
});

test('an unknown code is not found', (t) => {
  for (const decide of [claim(), markApplied(codeTime), revokeCode(revoked)])
    t.like(
      t.throws(() => decide(undefined)),
      { name: 'ApiError', code: 'NOT_FOUND' },
    );
});

test('operators see a claimed code as redeemed, and an unused one as expired from its end on', (t) => {
  t.deepEqual(
    Object.values(codes).map((code) => shownStateOf(code, codeTime)),
    ['unused', 'redeemed', 'redeemed', 'revoked'],
  );
  t.is(shownStateOf(codes.unused, at(1)), 'expired');
  for (const code of [codes.claimed, codes.redeemed, codes.revoked])
    t.is(shownStateOf({ ...code, expiresAt: at(1) }, at(1)), shownStateOf(code, codeTime));
});
