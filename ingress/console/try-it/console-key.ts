import type { CreatedKey } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';

type MadeKey = Pick<CreatedKey, 'id' | 'key'>;

/** Whether what the key has begun ends with it. */
type RevokeOptions = { endsRequests: boolean };

/** The key with which the page calls the API for a user who is signed in. It is in this closure only, and ends in an hour. */
export interface ConsoleKey {
  /**
   * Runs with the key, which is made for the first request. If it has ended, or another tab has replaced it, it runs once more with a new
   * one. Fails as `run` does, and with `ApiFailure` if no key can be made.
   */
  use(run: (key: string) => Promise<void>): Promise<void>;
  /** Revokes the key, if there is one: as well as a browser can while the page is closed. Does not fail: the key ends in an hour. */
  revoke(options: RevokeOptions): Promise<void>;
  /** Resolves once what was to be revoked is: a list that is read after it does not show the key as usable. */
  untilRevoked(): Promise<void>;
  /** Forgets the key, which no one can revoke without a sign-in. */
  forget(): void;
}

export function createConsoleKey(api: Pick<Api, 'call'>): ConsoleKey {
  let held: Promise<MadeKey> | undefined;
  let revoking = Promise.resolve();

  /** One for all requests that are sent meanwhile. */
  function take(): Promise<MadeKey> {
    if (held !== undefined) return held;
    const making = api.call<CreatedKey>('/v1/keys/console', { method: 'POST', body: {} });
    held = making;
    making.catch(() => {
      if (held === making) held = undefined;
    });
    return making;
  }

  async function end(made: Promise<MadeKey>, { endsRequests }: RevokeOptions): Promise<void> {
    try {
      const { id } = await made;
      await api.call(`/v1/keys/${id}?end_requests=${endsRequests}`, { method: 'DELETE', keepalive: true });
    } catch {
      // it ends in an hour
    }
  }

  return {
    async use(run) {
      const taken = take();
      const { key } = await taken;
      try {
        await run(key);
      } catch (error) {
        if (!hasEnded(error)) throw error;
        if (held === taken) held = undefined; // else another request has replaced it
        await run((await take()).key);
      }
    },
    revoke(options) {
      const made = held;
      held = undefined;
      if (made !== undefined) revoking = end(made, options);
      return revoking;
    },
    untilRevoked: () => revoking,
    forget() {
      held = undefined;
    },
  };
}

function hasEnded(error: unknown): boolean {
  return error instanceof ApiFailure && (error.code === 'INVALID_KEY' || error.code === 'KEY_EXPIRED');
}
