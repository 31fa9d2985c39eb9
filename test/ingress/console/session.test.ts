import test from 'ava';
import type { Browser } from '../../../ingress/console/session/browser.ts';
import { renewAfterMs } from '../../../ingress/console/session/held-tokens.ts';
import {
  type IdentityProvider,
  IssuerUnavailable,
  SignInEnded,
  type Tokens,
} from '../../../ingress/console/session/identity-provider.ts';
import { createSession } from '../../../ingress/console/session/session.ts';

const tokensOf = (number: number, expiresInS = 3_600): Tokens => ({
  accessToken: `access ${number}`,
  refreshToken: `refresh ${number}`,
  account: 'alice',
  expiresInS,
});

/** A session in a fake browser, at an address that the issuer redirects to, with a fake issuer. */
function open({ url = 'https://console.example/console?code=c&state=s', provider = {}, stored = {} }: Options = {}) {
  const kept = new Map<string, string>(Object.entries(stored));
  const timers: { run: () => void; ms: number }[] = [];
  const left: string[] = [];
  const announced: string[] = [];
  let signOutElsewhere = () => {};
  let address = new URL(url);
  const browser: Browser = {
    storage: {
      getItem: (name) => kept.get(name) ?? null,
      setItem: (name, value) => void kept.set(name, value),
      removeItem: (name) => void kept.delete(name),
    },
    address: () => address,
    replaceAddress: (next) => {
      address = new URL(next, address);
    },
    leaveFor: (next, { inPlace }) => void left.push(inPlace ? `${next} in place` : next),
    otherTabs: {
      announceSignOut: () => void announced.push('signed out'),
      onSignOut: (run) => {
        signOutElsewhere = run;
      },
    },
    later(run, ms) {
      const timer = { run, ms };
      timers.push(timer);
      return () => void timers.splice(timers.indexOf(timer), 1);
    },
  };
  let renewals = 0;
  const full: IdentityProvider = {
    begin: async ({ hash, silently }) => ({
      url: new URL(`https://issuer.example/auth?silently=${silently}`),
      pending: { verifier: 'v', state: 's', nonce: 'n', hash },
    }),
    finish: async () => tokensOf(0),
    renew: async () => {
      renewals += 1;
      return tokensOf(renewals);
    },
    revoke: async () => {},
    endSession: async () => new URL('https://issuer.example/end'),
    ...provider,
  };
  const session = createSession({ provider: full, ...browser });
  return {
    session,
    kept,
    timers,
    left,
    announced,
    signOutElsewhere: () => signOutElsewhere(),
    address: () => address.href,
    renewals: () => renewals,
  };
}

type Options = { url?: string; provider?: Partial<IdentityProvider>; stored?: Record<string, string> };
const pending = { 'sign-in under way': JSON.stringify({ verifier: 'v', state: 's', nonce: 'n', hash: '#usage' }) };

test('the code is removed from the address before it is used, and the previous page is restored', async (t) => {
  let seen = '';
  const opened = open({
    stored: pending,
    provider: {
      finish: async () => {
        seen = opened.address();
        return tokensOf(0);
      },
    },
  });
  await opened.session.start();
  t.is(seen, 'https://console.example/console#usage');
  t.deepEqual(opened.session.state(), { name: 'signed in', account: 'alice' });
  t.deepEqual([...opened.kept], [['was signed in', 'yes']], 'no token is stored, and the verifier is removed');
});

test('a response for which this tab has no pending sign-in is ignored', async (t) => {
  const opened = open({ provider: { finish: () => t.fail() as never } });
  await opened.session.start();
  t.is(opened.session.state().name, 'signed out');
  t.is(opened.address(), 'https://console.example/console');
});

test('a tab that was signed in asks the issuer once without a prompt; a new tab does not', async (t) => {
  const again = open({ url: 'https://console.example/console#keys', stored: { 'was signed in': 'yes' } });
  await again.session.start();
  t.deepEqual(again.left, ['https://issuer.example/auth?silently=true in place']);
  t.false(again.kept.has('was signed in'));

  const fresh = open({ url: 'https://console.example/console' });
  await fresh.session.start();
  t.deepEqual(fresh.left, []);
  t.deepEqual(fresh.session.state(), { name: 'signed out' });
});

test('a token is renewed a minute before it expires, and its successor too', async (t) => {
  const opened = open({ stored: pending });
  await opened.session.start();
  t.deepEqual(
    opened.timers.map(({ ms }) => ms),
    [3_540_000],
  );
  opened.timers[0]?.run();
  await opened.session.tokenAfter('access 0');
  t.is(await opened.session.token(), 'access 1');
  t.is(opened.renewals(), 1);
  t.is(opened.timers.length, 1);
});

test('concurrent calls that are refused renew once: an issuer treats a refresh token that is sent twice as stolen', async (t) => {
  const opened = open({ stored: pending });
  await opened.session.start();
  const tokens = await Promise.all(Array.from({ length: 5 }, () => opened.session.tokenAfter('access 0')));
  t.deepEqual([...new Set(tokens)], ['access 1']);
  t.is(opened.renewals(), 1);
  t.is(await opened.session.tokenAfter('access 0'), 'access 1', 'a late refusal of the old token causes no renewal');
  t.is(opened.renewals(), 1);
});

test('an issuer that refuses to renew ends the sign-in; an unavailable one does not, and is retried', async (t) => {
  const ended = open({ stored: pending, provider: { renew: () => Promise.reject(new SignInEnded('over')) } });
  await ended.session.start();
  await t.throwsAsync(ended.session.tokenAfter('access 0'), { instanceOf: SignInEnded });
  t.like(ended.session.state(), { name: 'signed out' });
  t.deepEqual([ended.timers.length, ended.kept.size], [0, 0]);

  const away = open({ stored: pending, provider: { renew: () => Promise.reject(new TypeError('refused')) } });
  await away.session.start();
  await t.throwsAsync(away.session.tokenAfter('access 0'), { instanceOf: IssuerUnavailable });
  t.is(away.session.state().name, 'signed in');
  t.deepEqual(
    away.timers.map(({ ms }) => ms),
    [15_000],
  );
});

test('a user who signs out during a renewal stays signed out', async (t) => {
  const { promise, resolve } = Promise.withResolvers<Tokens>();
  const revoked: (string | undefined)[] = [];
  const revoke = async ({ refreshToken }: Tokens) => void revoked.push(refreshToken);
  const opened = open({ stored: pending, provider: { renew: () => promise, revoke } });
  await opened.session.start();
  const renewal = opened.session.tokenAfter('access 0');
  await opened.session.signOut();
  resolve(tokensOf(1));
  await t.throwsAsync(renewal, { instanceOf: SignInEnded });
  t.is(opened.session.state().name, 'signing out');
  t.deepEqual(revoked, ['refresh 0', 'refresh 1'], 'the token that came too late is revoked as well');
  t.deepEqual(opened.left, ['https://issuer.example/end']);
  t.is(opened.timers.length, 0);
});

test('a follower is called at each change until it stops following', async (t) => {
  const opened = open({ stored: pending });
  const seen: string[] = [];
  const stop = opened.session.follow(() => void seen.push(opened.session.state().name));
  await opened.session.start();
  stop();
  await opened.session.signOut();
  t.deepEqual(seen, ['signed in']);
});

test('a short-lived token is renewed at half its life, one that lives for years after the longest time that timers support', (t) => {
  t.deepEqual([0, 1, 60, 100, 120, 3_600, 2_592_000, 1e12].map(renewAfterMs), [
    ...[1_000, 1_000, 30_000, 50_000, 60_000, 3_540_000],
    ...[86_400_000, 86_400_000],
  ]);
});

test('without a refresh token nothing is renewed ahead, and the sign-in ends when its token is refused', async (t) => {
  const opened = open({
    stored: pending,
    provider: {
      finish: async () => ({ ...tokensOf(0), refreshToken: undefined }),
      renew: () => Promise.reject(new SignInEnded('none')),
    },
  });
  await opened.session.start();
  t.is(opened.timers.length, 0);
  t.is(opened.session.state().name, 'signed in');
  await t.throwsAsync(opened.session.tokenAfter('access 0'), { instanceOf: SignInEnded });
  t.is(opened.session.state().name, 'signed out');
});

test('signing out ends the session at the issuer although its tokens cannot be revoked, and the page reports it after the return', async (t) => {
  const opened = open({ stored: pending, provider: { revoke: () => Promise.reject(new TypeError('refused')) } });
  await opened.session.start();
  const leaving = opened.session.signOut();
  t.is(opened.session.state().name, 'signing out', 'no sign-in is possible meanwhile');
  await leaving;
  t.deepEqual(opened.left, ['https://issuer.example/end']);
  t.deepEqual(opened.announced, ['signed out']);

  const back = open({ url: 'https://console.example/console', stored: Object.fromEntries(opened.kept) });
  await back.session.start();
  t.deepEqual(back.session.state(), { name: 'signed out', message: 'You have signed out.' });
  t.is(back.kept.size, 0);
});

test('a sign-out that cannot reach the issuer says so, and an issuer without an end-session endpoint is not waited for', async (t) => {
  const away = open({ stored: pending, provider: { endSession: () => Promise.reject(new TypeError('refused')) } });
  await away.session.start();
  await away.session.signOut();
  t.regex((away.session.state() as { message?: string }).message ?? '', /could not be reached/);
  t.deepEqual(away.left, []);
  const none = open({ stored: pending, provider: { endSession: async () => undefined } });
  await none.session.start();
  await none.session.signOut();
  t.deepEqual(none.session.state(), { name: 'signed out', message: 'You have signed out.' });
});

test('signing out in another tab signs out this tab', async (t) => {
  const opened = open({ stored: pending });
  await opened.session.start();
  opened.signOutElsewhere();
  t.deepEqual(opened.session.state(), { name: 'signed out', message: 'You have signed out in another tab.' });
  await t.throwsAsync(opened.session.token(), { instanceOf: SignInEnded });
});
