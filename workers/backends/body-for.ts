import type { InferenceJob } from '../../shared/inference-job.ts';
import type { Backend } from '../../shared/plan-file.ts';

type Queued = Pick<InferenceJob, 'body' | 'model' | 'outputTokensMax'>;

/**
 * What a backend is sent: the queued object behind the backend's own name for the model and the most it may produce, which
 * is never left out (API E3). It goes by both names that servers know, for one that does not know the only name it is given
 * would produce without bound; a backend that refuses one of them says in the plan file which it takes.
 */
export function bodyFor({ body, model, outputTokensMax }: Queued, backend: Backend): string {
  const fields = backend.outputLimitField === undefined ? bothFields : [backend.outputLimitField];
  const limits = fields.map((field) => `"${field}":${outputTokensMax},`).join('');
  return `{"model":${JSON.stringify(backend.model ?? model)},${limits}${body.slice(1)}`;
}

const bothFields = ['max_tokens', 'max_completion_tokens'] as const;
