import { setTimeout as sleep } from 'node:timers/promises';
import { errorStatus, replyLost } from '../../shared/errors.ts';
import type { HeldClaim } from '../../shared/jobs/idempotency.ts';
import type { UsageReport } from '../../shared/jobs/usage-outbox.ts';
import type { Release } from '../../shared/limits/release.ts';
import type { Settle, Settlement } from '../../shared/limits/settle.ts';
import type { Log } from '../../shared/process/log.ts';
import { countSettled } from '../../shared/process/metrics.ts';
import { type Span, traceSettlement } from '../../shared/tracing/span.ts';
import type { IngressMetrics } from '../metrics.ts';

/**
 * The lease of a request in flight: who holds it, and the usage report for a lease that expires. `claim` is set if it has an idempotency
 * key.
 */
export type HeldLease = {
  account: string;
  requestId: string;
  report: UsageReport;
  promptTokens: number;
  admission: { admittedAt: number; deadline: number; overage: boolean };
  claim?: HeldClaim;
  /** Set if the request is traced. */
  span?: Span;
  /** Its admission was taken back, so it will have no usage record. */
  isReleased?: true;
  /** Called if it is released later. */
  onReleased?: () => void;
};

export function markReleased(lease: Pick<HeldLease, 'isReleased' | 'onReleased'>): void {
  if (lease.isReleased) return;
  lease.isReleased = true;
  lease.onReleased?.();
}

/**
 * `run` is the run that reports that an earlier one was interrupted after `completionTokens`. It has counted `promptTokens`, unless it has
 * begun to call backends: then `promptTokens` is undefined, and the estimate in the lease is charged.
 */
export type DeliveredTokens = { run: number; completionTokens: number; promptTokens: number | undefined };

/**
 * Charges a stream whose worker died: the prompt and the delivered tokens, both estimated (contract.md#n7-who-settles). Never fails. If
 * Redis stays unavailable, the lease expires.
 */
export function createSettleInterrupted({
  settle,
  metrics,
  log,
}: {
  settle: Settle;
  metrics: Pick<IngressMetrics, 'settled' | 'tokens' | 'settleFailures'>;
  log: Log;
}) {
  return async function settleInterrupted(lease: HeldLease, delivered: DeliveredTokens): Promise<void> {
    const { account, requestId, admission } = lease;
    const { endpoint } = lease.report;
    const { run, completionTokens } = delivered;
    // If no part of the answer was delivered, nothing is charged.
    const promptTokens = completionTokens === 0 ? 0 : (delivered.promptTokens ?? lease.promptTokens);
    const { code } = replyLost(completionTokens > 0);
    const endedRuns = delivered.promptTokens === undefined ? [] : [run];
    const report: UsageReport = {
      ...lease.report,
      outcome: 'failed',
      code,
      status: completionTokens === 0 ? errorStatus(code) : 200, // the error is a frame of the stream
      counted: 'estimated',
      promptTokens,
      completionTokens,
      endedRuns,
    };
    const chargedTokens = promptTokens + completionTokens;
    try {
      const settled = await traceSettlement(lease.span, report.outcome, () =>
        settle({
          account,
          requestId,
          run,
          settler: 'ingress',
          chargedTokens,
          report,
          admission,
          claim: claimOf(lease, chargedTokens),
        }),
      );
      if (settled === 'settled') countSettled(metrics, report);
      else metrics.settleFailures.inc({ endpoint, reason: settled });
    } catch (error) {
      metrics.settleFailures.inc({ endpoint, reason: 'error' });
      log.error({ err: error, requestId }, 'an interrupted request could not be settled; its lease will expire');
    }
  };
}

function claimOf({ claim }: HeldLease, chargedTokens: number): Settlement['claim'] {
  if (claim === undefined) return undefined;
  const { idempotencyKey, bodyMarks } = claim;
  return { idempotencyKey, bodyMark: bodyMarks[0], end: chargedTokens === 0 ? 'free' : 'lost' };
}

/** Settles in the background, and keeps track of what has not ended. */
export function createSettlements(settleInterrupted: ReturnType<typeof createSettleInterrupted>) {
  const running = new Set<Promise<void>>();
  return {
    begin(lease: HeldLease, delivered: DeliveredTokens): void {
      const settling = settleInterrupted(lease, delivered).finally(() => running.delete(settling));
      running.add(settling);
    },
    /** Resolves when all that have begun so far have ended. */
    ended: () => Promise.all(running),
  };
}

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
