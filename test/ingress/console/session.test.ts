import test from 'ava';
import { AuthorizationResponseError } from 'oauth4webapi';
import type { Browser, PageStorage } from '../../../ingress/console/session/browser.ts';
import {
  type IdentityProvider,
  IssuerUnavailable,
  SignInEnded,
  SignInRefused,
  type Tokens,
} from '../../../ingress/console/session/identity-provider.ts';
import { createSession, renewAfterMs } from '../../../ingress/console/session/session.ts';

const tokensOf = (number: number, expiresInS = 3_600): Tokens => ({
  accessToken: `access ${number}`,
  refreshToken: `refresh ${number}`,
  account: 'alice',
  expiresInS,
});

/** A session in a fake browser, at an address that the issuer redirects to, with a fake issuer. */
function open({
  url = 'https://console.example/console?code=c&state=s',
  provider = {},
  stored = {},
  keptByAll = new Map<string, string>(),
  isReload = false,
}: Options = {}) {
  const kept = new Map<string, string>(Object.entries(stored));
  const timers: { run: () => void; ms: number }[] = [];
  const left: string[] = [];
  const announced: string[] = [];
  let signOutElsewhere = () => {};
  let address = new URL(url);
  const browser: Browser = {
    storage: storageIn(kept),
    sharedStorage: storageIn(keptByAll),
    address: () => address,
    isReload: () => isReload,
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
    scope: 'openid svc:admin',
    begin: async ({ hash, silently, scope }) => ({
      url: new URL(`https://issuer.example/auth?silently=${silently}&scope=${scope}`),
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
    keptByAll,
    timers,
    left,
    announced,
    signOutElsewhere: () => signOutElsewhere(),
    address: () => address.href,
    renewals: () => renewals,
  };
}

function storageIn(kept: Map<string, string>): PageStorage {
  return {
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, value) => void kept.set(name, value),
    removeItem: (name) => void kept.delete(name),
  };
}

type Options = {
  url?: string;
  provider?: Partial<IdentityProvider>;
  stored?: Record<string, string>;
  keptByAll?: Map<string, string>;
  isReload?: boolean;
};
const pendingWith = (attempt: object) => ({
  'sign-in under way': JSON.stringify({
    ...{ verifier: 'v', state: 's', nonce: 'n', hash: '#usage' },
    attempt: { scope: 'openid svc:admin', silently: false, offline: 'not yet', ...attempt },
  }),
});
const pending = pendingWith({});
const wasSignedIn = () => new Map([['was signed in', 'yes']]);

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
  t.deepEqual([...opened.kept], [], 'the verifier is removed');
  t.deepEqual(opened.keptByAll, wasSignedIn(), 'no token is stored');
});

test('a response for which this tab has no pending sign-in is ignored, and does not sign other tabs out', async (t) => {
  const url = 'https://console.example/console?state=x&error=login_required';
  const opened = open({ url, keptByAll: wasSignedIn(), provider: { finish: () => t.fail() as never } });
  await opened.session.start();
  t.is(opened.session.state().name, 'signed out');
  t.deepEqual(opened.keptByAll, wasSignedIn());
  t.is(opened.address(), 'https://console.example/console');
});

const silent = 'https://issuer.example/auth?silently=true&scope=openid%20svc:admin in place';

test('a tab asks the issuer without a prompt if the user is signed in, in whichever tab', async (t) => {
  const again = open({ url: 'https://console.example/console#keys', keptByAll: wasSignedIn() });
  await again.session.start();
  t.deepEqual(again.left, [silent]);

  const fresh = open({ url: 'https://console.example/console' });
  await fresh.session.start();
  t.deepEqual(fresh.left, []);
  t.deepEqual(fresh.session.state(), { name: 'signed out' });
});

test('an issuer that does not send the browser back is not asked again at once, and does not sign other tabs out', async (t) => {
  const url = 'https://console.example/console';
  const back = open({ url, keptByAll: wasSignedIn(), stored: pendingWith({ silently: true }) });
  await back.session.start();
  t.deepEqual(back.left, []);
  t.deepEqual(back.session.state(), { name: 'signed out' });
  t.deepEqual(back.keptByAll, wasSignedIn());
  const later = open({ url, keptByAll: back.keptByAll, stored: Object.fromEntries(back.kept) });
  await later.session.start();
  t.deepEqual(later.left, [silent]);
});

test('a reload before the page has left for the issuer asks it again', async (t) => {
  const url = 'https://console.example/console';
  for (const attempt of [{ silently: true }, { silently: true, offline: 'now' }]) {
    const again = open({ url, keptByAll: wasSignedIn(), stored: pendingWith(attempt), isReload: true });
    await again.session.start();
    t.deepEqual(again.left, [silent]);
    t.false(again.kept.has('offline_access was not answered'));
  }
});

test('an unavailable issuer does not end the sign-in of other tabs; one without a session of the user does', async (t) => {
  const refuse = (error: Error) => ({ provider: { finish: () => Promise.reject(error) }, keptByAll: wasSignedIn() });
  const away = open({ stored: pending, ...refuse(new TypeError('refused')) });
  await away.session.start();
  t.regex((away.session.state() as { message?: string }).message ?? '', /cannot be reached/);
  t.deepEqual(away.keptByAll, wasSignedIn());
  const ended = open({ stored: pending, ...refuse(refusal('login_required')) });
  await ended.session.start();
  t.deepEqual(ended.session.state(), { name: 'signed out' });
  t.is(ended.keptByAll.size, 0);
});

/** What the issuer is asked, from this attempt on, until the sign-in has a result, and how the sign-in ends. */
async function attemptsFrom(first: object, answers: (string | 'tokens' | 'tokens without a refresh token')[]) {
  const asked: string[] = [];
  let stored: Record<string, string> = pendingWith(first);
  for (const answer of answers) {
    const finish = async (): Promise<Tokens> => {
      if (answer === 'tokens') return tokensOf(0);
      if (answer === 'tokens without a refresh token') return { ...tokensOf(0), refreshToken: undefined };
      throw refusal(answer);
    };
    const opened = open({ stored, provider: { finish }, keptByAll: wasSignedIn() });
    await opened.session.start();
    const { name } = opened.session.state();
    if (opened.left.length === 0) return [...asked, name];
    asked.push(...opened.left.map((left) => decodeURIComponent(left.replace('https://issuer.example/auth?', ''))));
    stored = Object.fromEntries(opened.kept);
  }
  return asked;
}

function refusal(error: string): SignInRefused {
  return new SignInRefused(new AuthorizationResponseError('refused', { cause: new URLSearchParams({ error }) }));
}

test('an issuer that does not know svc:admin is asked once more without it', async (t) => {
  for (const silently of [false, true]) {
    const second = `silently=${silently}&scope=openid in place`;
    t.deepEqual(await attemptsFrom({ silently }, ['invalid_scope', 'tokens']), [second, 'signed in']);
    t.deepEqual(await attemptsFrom({ silently }, ['invalid_scope', 'invalid_scope']), [second, 'signed out']);
  }
  t.deepEqual(await attemptsFrom({ scope: 'openid other' }, ['invalid_scope']), ['signed out']);
  t.deepEqual(await attemptsFrom({}, ['access_denied']), ['signed out']);
});

test('offline_access is requested only if the issuer gave no refresh token without it, once, and given up if it is refused', async (t) => {
  const none = 'tokens without a refresh token';
  const offline = 'silently=true&scope=openid svc:admin offline_access in place';
  t.deepEqual(await attemptsFrom({}, ['tokens']), ['signed in']);
  t.deepEqual(await attemptsFrom({}, [none, 'tokens']), [offline, 'signed in']);
  t.deepEqual(await attemptsFrom({}, [none, none]), [offline, 'signed in'], 'until the token expires');
  t.deepEqual(await attemptsFrom({ scope: 'openid offline_access' }, [none]), ['signed in']);
  for (const error of ['consent_required', 'login_required', 'invalid_scope']) {
    for (const silently of [true, false]) {
      const given = `silently=${silently}&scope=openid svc:admin in place`;
      t.deepEqual(await attemptsFrom({ silently }, [none, error, none]), [offline, given, 'signed in'], error);
      t.deepEqual(
        await attemptsFrom({ silently }, [none, error, error, error]).then((all) => all.at(-1)),
        'signed out',
      );
    }
  }
  t.deepEqual(await attemptsFrom({}, ['invalid_scope', none, 'tokens']), [
    ...['silently=false&scope=openid in place', 'silently=true&scope=openid offline_access in place', 'signed in'],
  ]);
});

const withoutRefresh = async () => ({ ...tokensOf(0), refreshToken: undefined });

test('tokens without a refresh token are used if the issuer cannot be reached to ask for offline_access', async (t) => {
  const begin = () => Promise.reject(new TypeError('refused'));
  const opened = open({ stored: pending, provider: { finish: withoutRefresh, begin } });
  await opened.session.start();
  t.deepEqual(opened.session.state(), { name: 'signed in', account: 'alice' });
  t.is(await opened.session.token(), 'access 0');
});

test('a tab that did not come back from a request for offline_access never makes one again', async (t) => {
  const url = 'https://console.example/console';
  for (const silently of [true, false]) {
    const keptByAll = silently ? wasSignedIn() : new Map<string, string>();
    const back = open({ url, keptByAll, stored: pendingWith({ silently, offline: 'now' }) });
    await back.session.start();
    if (!silently) await back.session.signIn();
    t.deepEqual(back.left, [silently ? silent : silent.replace('true', 'false').replace(' in place', '')]);
    const done = open({ keptByAll, stored: Object.fromEntries(back.kept), provider: { finish: withoutRefresh } });
    await done.session.start();
    t.is(done.session.state().name, 'signed in');

    const reloaded = open({ url, keptByAll, stored: Object.fromEntries(done.kept), isReload: true });
    await reloaded.session.start();
    t.deepEqual(reloaded.left, [silent]);
    const stored = Object.fromEntries(reloaded.kept);
    const again = open({ keptByAll, stored, provider: { finish: withoutRefresh } });
    await again.session.start();
    t.is(again.session.state().name, 'signed in');
  }
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
    stored: pendingWith({ offline: 'before' }),
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

const elsewhere = { name: 'signed out', message: 'You have signed out in another tab.' } as const;

test('signing out in another tab while this tab exchanges its code ends the sign-in, and revokes what was granted', async (t) => {
  for (const refreshToken of ['refresh 0', undefined]) {
    const { promise, resolve } = Promise.withResolvers<Tokens>();
    const revoked: string[] = [];
    const revoke = async ({ accessToken }: Tokens) => void revoked.push(accessToken);
    const opened = open({ stored: pending, provider: { finish: () => promise, revoke } });
    const starting = opened.session.start();
    opened.signOutElsewhere();
    resolve({ ...tokensOf(0), refreshToken });
    await starting;
    t.deepEqual(opened.session.state(), elsewhere);
    t.deepEqual(revoked, ['access 0']);
    t.deepEqual([opened.left.length, opened.keptByAll.size], [0, 0]);
  }
});

test('signing out in another tab while this tab cannot leave for offline_access ends the sign-in', async (t) => {
  const revoked: string[] = [];
  const opened = open({
    stored: pending,
    provider: {
      finish: withoutRefresh,
      begin: async () => {
        opened.signOutElsewhere();
        throw new TypeError('refused');
      },
      revoke: async ({ accessToken }) => void revoked.push(accessToken),
    },
  });
  await opened.session.start();
  t.deepEqual(opened.session.state(), elsewhere);
  t.deepEqual(revoked, ['access 0']);
});

test('signing out in another tab while this tab is at the issuer without a prompt ends the sign-in at its return', async (t) => {
  const revoked: string[] = [];
  const revoke = async ({ accessToken }: Tokens) => void revoked.push(accessToken);
  const opened = open({ stored: pendingWith({ silently: true }), provider: { revoke } });
  await opened.session.start();
  t.deepEqual(opened.session.state(), elsewhere);
  t.deepEqual(revoked, ['access 0']);
  t.is(opened.keptByAll.size, 0);

  const signsIn = open({ stored: pendingWith({ silently: false }), provider: { revoke } });
  await signsIn.session.start();
  t.is(signsIn.session.state().name, 'signed in', 'the user has just signed in');
});
