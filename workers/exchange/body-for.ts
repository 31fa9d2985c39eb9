import { parseExactly } from '../../shared/chat-call/chat-call.ts';
import { mayBeInexact } from '../../shared/chat-call/may-be-inexact.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { Backend } from '../../shared/process/plan-file.ts';
import type { OwnFields } from './own-fields.ts';

type Queued = Pick<QueuedCall, 'body' | 'model' | 'outputTokensMax' | 'assembled'>;

/**
 * What a backend is sent: the queued object behind the backend's own name for the model and the most it may produce, which
 * is never left out. It goes by both names that servers know, for one that does not know the only name it is given
 * would produce without bound; a backend that refuses one of them says in the plan file which it takes. An answer that is
 * assembled is asked for as a stream, with its usage. Fields of our own (`own`) take the place of the client's.
 */
export function bodyFor(job: Queued, backend: Backend, own: OwnFields = {}): string {
  const { model, outputTokensMax } = job;
  const body = withoutFields(job.body, Object.keys(own));
  const fields = backend.outputLimitField === undefined ? bothFields : [backend.outputLimitField];
  const limits = fields.map((field) => `"${field}":${outputTokensMax},`).join('');
  const streaming = isAssembled(job, backend) ? askForStream : '';
  const ours = Object.entries(own).map(([name, value]) => `"${name}":${JSON.stringify(value)},`);
  return `{"model":${JSON.stringify(backend.model ?? model)},${limits}${ours.join('')}${streaming}${body.slice(1)}`;
}

/** Some servers heed the last of two fields of one name. A body is queued as `JSON.stringify` writes it. */
function withoutFields(body: string, names: readonly string[]): string {
  if (!names.some((name) => body.includes(`"${name}":`))) return body;
  const sent: object = mayBeInexact(body) ? parseExactly(body) : JSON.parse(body);
  const left = Object.entries(sent).filter(([name]) => !names.includes(name));
  return JSON.stringify(Object.fromEntries(left));
}

/** Whether a whole answer is asked for as a stream and assembled: the request allows it, and so does the backend. */
export function isAssembled({ assembled }: Pick<QueuedCall, 'assembled'>, { wholeAsStream }: Backend): boolean {
  return assembled && wholeAsStream !== false;
}

const askForStream = '"stream":true,"stream_options":{"include_usage":true},';
const bothFields = ['max_tokens', 'max_completion_tokens'] as const;
