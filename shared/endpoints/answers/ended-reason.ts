import { BackendError } from './backend-error.ts';

/** An engine that is stopped, or that fails, ends its answers with one of these (vLLM, SGLang: `abort`; Mistral, OpenRouter: `error`). */
const reasonsOfBreaks = new Set(['abort', 'aborted', 'error', 'failed', 'cancelled', 'canceled']);

/**
 * Fails with `interrupted` if the reason for an end says that the answer broke off: its end is not that of an answer
 * (contract.md#ms1-complete-answers).
 */
export function requireEnded(reason: unknown): void {
  if (typeof reason !== 'string' || !reasonsOfBreaks.has(reason.toLowerCase())) return;
  throw new BackendError('interrupted', `the backend ended its answer with "${reason}"`);
}
