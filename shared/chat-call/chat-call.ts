import { validationError } from '../errors.ts';
import { exceededJsonBound } from '../json-bounds.ts';
import type { PlanFile } from '../process/plan-file.ts';
import { validationIssuesOf } from '../validation-issues.ts';
import { canBeAssembled } from './can-be-assembled.ts';
import { type ChatRequest, chatRequestSchema, publishedRequestSchema } from './chat-completion.ts';
import { isPlainRequest } from './is-plain-request.ts';
import type { ListedFields } from './listed-fields.ts';
import { mayBeInexact } from './may-be-inexact.ts';
import { type RequestCost, requestCost } from './request-cost.ts';

/**
 * A chat completion, ready to be queued. `body` is the client's object as JSON text, without its `model`, `max_tokens` and
 * `max_completion_tokens`. `outputTokensMax` is the limit that the backend gets instead. `assembled` is as in the job.
 */
export type ChatCall = {
  endpoint: '/v1/chat/completions';
  model: string;
  tier: string;
  /** The pool of the model's workers. */
  pool: string;
  stream: boolean;
  includeUsage: boolean;
  assembled: boolean;
  body: string;
  outputTokensMax: number;
  /** The number of choices (`n`). */
  choices: number;
  cost: RequestCost;
};

/** A JSON object and its original text, or any text with the same numbers in it. */
export type SentJson = { value: object; text: string };

/** Which fields of a request may reach a backend: those that the plan file lists; or any field, for batches older than the lists. */
export type FieldRule = ListedFields | 'any field';

type Options = { rule: FieldRule; noSuchModel?: (name: string) => string };

/**
 * Checks the body and prepares the backend's body: the client's without `service_tier`, with an output limit, and with usage if it is a
 * stream (contract.md#d1-accepted-requests). Fails with `VALIDATION_ERROR`, which names each field that is invalid or not allowed by the
 * rule, and reports a model that is not in `models` with the text of `noSuchModel`.
 */
export function parseChatCall(sent: SentJson, models: PlanFile['models'], options: Options): ChatCall {
  const { rule, noSuchModel = () => 'no such model' } = options;
  const request = isPlainRequest(sent.value) ? sent.value : parseRequest(sent.value, rule);
  const model = models[request.model];
  if (model === undefined) {
    throw validationError([{ path: 'model', message: `there is ${noSuchModel(request.model)}` }]);
  }
  const stream = request.stream === true;
  const assembled = !stream && canBeAssembled(request);
  const body = backendBody(sent, { stream, assembled, serviceTier: rule === 'any field' });
  const cost = requestCost({ request, text: body, model });
  return {
    endpoint: '/v1/chat/completions',
    model: request.model,
    tier: model.tier,
    pool: model.pool,
    stream,
    includeUsage: request.stream_options?.include_usage === true,
    assembled,
    body,
    outputTokensMax: cost.outputTokensMax,
    choices: request.n ?? 1,
    cost,
  };
}

function parseRequest(value: object, rule: FieldRule): ChatRequest {
  const isAnyField = rule === 'any field';
  const parsed = (isAnyField ? chatRequestSchema : publishedRequestSchema).safeParse(value);
  const issues = [
    ...(parsed.success ? [] : validationIssuesOf(parsed.error)),
    ...(isAnyField ? [] : rule.issuesIn(value)),
  ];
  if (!parsed.success || issues.length > 0) throw validationError(issues);
  return parsed.data;
}

/** Fields that the worker inserts in front: if a field occurs twice, some servers use the last. */
const putInFront = { model: undefined, max_tokens: undefined, max_completion_tokens: undefined };

type Sending = { stream: boolean; assembled: boolean; serviceTier: boolean };

function backendBody(sent: SentJson, { stream, assembled, serviceTier }: Sending): string {
  const body = exactly(sent);
  const streaming = {
    ...(stream && { stream_options: { ...body.stream_options, include_usage: true } }),
    // The client's fields would contradict the stream that the worker requests.
    ...(assembled && { stream: undefined, stream_options: undefined }),
  };
  return JSON.stringify({ ...body, ...streaming, ...putInFront, ...(!serviceTier && { service_tier: undefined }) });
}

/** As validated by the schema. */
type SentObject = { stream_options?: object | null };

// TypeScript's library does not have types for this part of JSON yet (ECMAScript, "JSON.parse source text access").
const sourceAccess = JSON as unknown as {
  rawJSON: (text: string) => unknown;
  parse: (text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown) => SentObject;
};

/** Returns the object with each number as it was written, so that a 64-bit seed reaches the backend as the client sent it. */
function exactly({ value, text }: SentJson): SentObject {
  return mayBeInexact(text) ? parseExactly(text) : value;
}

/** Each value costs a function call: two million of them took four seconds. */
const exactBounds = { commasMax: 50_000 };

/**
 * Parses the object in this text so that its numbers are serialized again as they were written. Fails with `VALIDATION_ERROR` if there are
 * too many values.
 */
export function parseExactly(text: string): object {
  const exceeded = exceededJsonBound(Buffer.from(text), exactBounds);
  if (exceeded !== undefined) {
    const message = `${exceeded} and a number of more than 15 digits`;
    throw validationError([{ path: 'body', message }]);
  }
  return sourceAccess.parse(text, (_key, item, { source }) =>
    typeof item === 'number' && source !== undefined ? sourceAccess.rawJSON(source) : item,
  );
}
