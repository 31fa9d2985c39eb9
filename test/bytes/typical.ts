import { randomBytes, randomUUID } from 'node:crypto';
import { ulid } from 'ulid';
import type { InferenceJob } from '../../shared/jobs/inference-job.ts';
import type { UsageReport } from '../../shared/jobs/usage-outbox.ts';
import type { NewKey } from '../../shared/store/records/key.ts';

/** The names and sizes of a typical service. The measured items have these, and the page says so. */
export const model = 'llama-3.3-70b-instruct';
export const plan = 'developer';

export const newAccount = () => `user:${randomUUID()}`;
export const newDevice = () => `device:${randomBytes(32).toString('hex')}`;
export const newRequest = () => `req_${ulid()}`;

export function newKey(): NewKey {
  const hash = randomBytes(32).toString('hex');
  return { id: `key_${ulid()}`, hash, display: `svc_${hash.slice(0, 6)}`, createdAt: new Date() };
}

/** The report of a request that was answered at its first attempt. */
export function newReport(): UsageReport {
  return {
    keyId: `key_${ulid()}`,
    answerId: `chatcmpl-${randomBytes(16).toString('hex')}`,
    ...{ plan, model, tier: 'standard', endpoint: '/v1/chat/completions', batch: null },
    ...{ promptTokens: 1_234, completionTokens: 456, cachedTokens: 1_024, counted: 'reported', outcome: 'completed' },
    ...{ queueWaitMs: 12, firstTokenMs: 345, durationMs: 6_789 },
    attempts: [{ run: 1, backend: 'onprem-gpu-a', outcome: 'answered', durationMs: 6_777 }],
    endedRuns: [1],
  };
}

/** A body of this many bytes, as a client sends it. */
export function bodyOf(bytes: number): string {
  const bodyWith = (content: string) => JSON.stringify({ messages: [{ role: 'user', content }], temperature: 0.7 });
  return bodyWith('words of a long prompt, '.repeat(bytes).slice(0, bytes - bodyWith('').length));
}

export function newJob(bodyBytes: number): InferenceJob {
  const now = Date.now();
  return {
    ...{ requestId: newRequest(), account: newAccount(), keyId: `key_${ulid()}`, plan, model, tier: 'standard' },
    ...{ endpoint: '/v1/chat/completions', stream: true, includeUsage: true, assembled: false, choices: 1 },
    ...{
      payload: bodyOf(bodyBytes),
      outputTokensMax: 4_096,
      limitFields: ['max_tokens'],
      promptEstimate: 1_500,
      replyTo: `svc:reply-frames:${ulid()}`,
      earlierRuns: [],
    },
    ...{ admittedAt: now, startBy: now + 30_000, deadline: now + 600_000, overage: false },
  };
}
