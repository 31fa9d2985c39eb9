import { setTimeout as sleep } from 'node:timers/promises';
import type { Release } from '../../shared/limits/release.ts';
import type { Log } from '../../shared/process/log.ts';

const attemptsMax = 7;
/** In an outage every request would wait for a release. Beyond this many, leases are left to expire. */
const waitingMax = 1_000;

/**
 * Releases a request like `release`, and after a failure retries in the background, although the caller has received the error. Otherwise
 * the reserved amounts would stay reserved until the lease expires (contract.md#n9-release). Pauses grow from half a second to half a
 * minute.
 */
export function createReleaseLater({
  release,
  log,
  pauseMs = 500,
}: {
  release: Release;
  log: Log;
  pauseMs?: number;
}): Release {
  let waiting = 0;

  async function tryAgain(request: Parameters<Release>[0]): Promise<void> {
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      await sleep(pauseMs * 2 ** (attempt - 1), undefined, { ref: false });
      try {
        await release(request);
        return;
      } catch (error) {
        log.debug({ err: error, requestId: request.requestId }, 'a request could not be released yet');
      }
    }
  }

  return async function releaseLater(request) {
    try {
      return await release(request);
    } catch (error) {
      if (waiting < waitingMax) {
        waiting++;
        void tryAgain(request).finally(() => waiting--);
      }
      throw error;
    }
  };
}
