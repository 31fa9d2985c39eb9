import test from 'ava';
import type { Api } from '../../../ingress/console/api/api.ts';
import { ApiFailure } from '../../../ingress/console/api/api-failure.ts';
import { createConsoleKey } from '../../../ingress/console/try-it/console-key.ts';

const failure = (code: string) => new ApiFailure(code, { code, status: 401 });

/** An API that makes the keys `svc_1`, `svc_2` …, and knows what was revoked. */
function fakeApi() {
  const calls: string[] = [];
  let [made, isAway] = [0, false];
  const call = async (path: string, { method = 'GET' } = {}) => {
    calls.push(`${method} ${path}`);
    if (isAway) throw failure('unreachable');
    if (method !== 'POST') return {};
    made += 1;
    return { id: `key_${made}`, key: `svc_${made}` };
  };
  return {
    calls,
    key: createConsoleKey({ call } as Pick<Api, 'call'>),
    setAway(now: boolean) {
      isAway = now;
    },
  };
}

test('one key is made for the first requests, and the next ones use it', async (t) => {
  const { key, calls } = fakeApi();
  const used: string[] = [];
  const use = () => key.use(async (value) => void used.push(value));
  await Promise.all([use(), use()]);
  await use();
  t.deepEqual(used, ['svc_1', 'svc_1', 'svc_1']);
  t.deepEqual(calls, ['POST /v1/keys/console']);
});

test('a key that has ended is replaced once for all requests that it was refused for, and each is sent once more', async (t) => {
  for (const code of ['INVALID_KEY', 'KEY_EXPIRED']) {
    const { key, calls } = fakeApi();
    await key.use(async () => {});
    const used: string[] = [];
    const use = () =>
      key.use(async (value) => {
        used.push(value);
        if (value === 'svc_1') throw failure(code);
      });
    await Promise.all([use(), use()]);
    t.deepEqual(used, ['svc_1', 'svc_1', 'svc_2', 'svc_2'], code);
    t.is(calls.length, 2);
  }
  const { key, calls } = fakeApi();
  await t.throwsAsync(
    key.use(() => Promise.reject(failure('INVALID_KEY'))),
    { message: 'INVALID_KEY' },
  );
  t.is(calls.length, 2, 'not again and again');
});

test('another failure makes no new key, and a key that could not be made is asked for again', async (t) => {
  const { key, calls, setAway } = fakeApi();
  setAway(true);
  await t.throwsAsync(
    key.use(async () => {}),
    { message: 'unreachable' },
  );
  setAway(false);
  await t.throwsAsync(key.use(() => Promise.reject(failure('rate_limit_exceeded'))));
  t.deepEqual(calls, ['POST /v1/keys/console', 'POST /v1/keys/console']);
});

test('leaving revokes the key, also one that is still being made, and the next request makes another', async (t) => {
  const { key, calls } = fakeApi();
  await key.revoke({ endsRequests: true });
  t.deepEqual(calls, [], 'there is none');
  const using = key.use(async () => {});
  void key.revoke({ endsRequests: false });
  await Promise.all([using, key.untilRevoked()]);
  t.deepEqual(calls, ['POST /v1/keys/console', 'DELETE /v1/keys/key_1?end_requests=false']);
  await key.use(async () => {});
  key.forget();
  await key.revoke({ endsRequests: true });
  t.deepEqual(calls.slice(2), ['POST /v1/keys/console'], 'a forgotten key ends in an hour');
});
