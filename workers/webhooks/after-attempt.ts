import {
  type Delivery,
  type DeliveryAttempt,
  failingTime,
  type WebhookEndpoint,
  type WebhookSchedule,
} from '../../shared/store/records/webhooks.ts';
import type { Answer } from './post-event.ts';

const attemptsKept = 20;
const isGivenUp = `no attempt of ${failingTime.text} has succeeded`;
const gone = 410;

/** One attempt of a delivery, with what it means for the next. */
export type AttemptResult = { at: Date; ms: number; answer: Answer; random: () => number };

export function isSuccess({ status }: Answer): boolean {
  return status !== undefined && status >= 200 && status < 300;
}

/** Returns a delivery after an attempt: delivered, waiting for the next attempt, or failed. */
export function afterAttempt(delivery: Delivery, { at, ms, answer, random }: AttemptResult): Delivery {
  const { nextAt: _, retriedSince = at, reason: __, ...attempted } = withAttempt(delivery, { at, ms, answer });
  if (isSuccess(answer)) return { ...attempted, state: 'delivered' };
  if (at.getTime() - retriedSince.getTime() >= failingMsMax)
    return { ...attempted, state: 'failed', reason: isGivenUp };
  const failures = attempted.attempts.filter((each) => each.at >= retriedSince).length;
  const nextAt = new Date(at.getTime() + pauseAfter({ failures, retryAfterMs: answer.retryAfterMs, random }));
  return { ...attempted, state: 'waiting', retriedSince, nextAt };
}

/** Adds an attempt to a delivery, and changes nothing else. */
export function withAttempt(delivery: Delivery, { at, ms, answer }: Omit<AttemptResult, 'random'>): Delivery {
  const { status, error } = answer;
  const attempt: DeliveryAttempt = { at, ms, ...(status !== undefined && { status }), ...(error && { error }) };
  const attempts = [...delivery.attempts, attempt].slice(-attemptsKept);
  return { ...delivery, attempts, attemptCount: delivery.attemptCount + 1 };
}

/** Returns the schedule of an endpoint after an attempt: a success ends its pause, a failure begins one. */
export function scheduleAfter(schedule: WebhookSchedule, { at, answer, random }: AttemptResult): WebhookSchedule {
  const { pausedUntil: _, failingSince = at, ...others } = schedule;
  if (isSuccess(answer)) return { ...withoutFailures(schedule), dueAt: at };
  const failures = schedule.failures + 1;
  const pausedUntil = new Date(at.getTime() + pauseAfter({ failures, retryAfterMs: answer.retryAfterMs, random }));
  return { ...others, failures, failingSince, pausedUntil, dueAt: pausedUntil };
}

export function withoutFailures({ pausedUntil: _, failingSince: __, ...others }: WebhookSchedule): WebhookSchedule {
  return { ...others, failures: 0 };
}

/** Forgets failures from before the endpoint was enabled, or got its present address. */
export function sinceEnabled(
  schedule: WebhookSchedule,
  { enabledAt }: Pick<WebhookEndpoint, 'enabledAt'>,
): WebhookSchedule {
  const { failingSince } = schedule;
  return failingSince !== undefined && failingSince < enabledAt ? withoutFailures(schedule) : schedule;
}

/** Returns why an endpoint is disabled after an attempt, or undefined. */
export function reasonToDisable(
  { failingSince }: Pick<WebhookSchedule, 'failingSince'>,
  { at, answer }: Pick<AttemptResult, 'at' | 'answer'>,
): WebhookEndpoint['disabledReason'] {
  if (answer.status === gone) return 'gone';
  if (failingSince === undefined || isSuccess(answer)) return undefined;
  return at.getTime() - failingSince.getTime() >= failingMsMax ? 'failing' : undefined;
}

const [minute, hour] = [60_000, 3_600_000];

const pausesMs = [5_000, minute, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour] as const;
const longestMs = 14 * hour;
const shortestMs = 1_000;
const retryAfterMsMax = hour;

/** How long a delivery, and an endpoint, is tried without success. */
export const failingMsMax = failingTime.days * 24 * hour;

type Failure = {
  /** From 1. */
  failures: number;
  /** What the receiver asked for. */
  retryAfterMs?: number | undefined;
  /** Returns numbers from 0 to 1. */
  random: () => number;
};

/** Returns the pause after a failure, at random up to a bound that grows, so that endpoints that failed together do not return together. */
export function pauseAfter({ failures, retryAfterMs = 0, random }: Failure): number {
  const boundMs = pausesMs[failures - 1] ?? longestMs;
  return Math.max(shortestMs, Math.round(random() * boundMs), Math.min(retryAfterMs, retryAfterMsMax));
}
