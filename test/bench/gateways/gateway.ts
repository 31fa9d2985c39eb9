import type { Question } from '../loads/load.ts';

export const chatPath = '/v1/chat/completions';
export const modelName = 'small-chat';

/** The result of comparing the calls of one run with the usage. If any number is not 0, usage was over-admitted, lost or counted twice. */
export type Books = { overAdmitted: number; lostUsage: number; duplicates: number };

/** A request to an endpoint. `fields` are those of its body. */
export type GatewayRequest = { path: string; fields: object };

const chat: GatewayRequest = { path: chatPath, fields: { messages: [{ role: 'user', content: 'Hello' }] } };

/** A server between clients and the model server that can be measured. */
export interface Gateway extends AsyncDisposable {
  /** The addresses for clients. Each of several gets as many clients. */
  readonly urls: readonly string[];
  readonly headers: Record<string, string>;
  /** What its clients send. Default: a chat completion. */
  readonly asked?: GatewayRequest;
  /** The processes of the gateway, by kind. */
  processes(): Promise<Record<string, number[]>>;
  /** Resolves when nothing is in progress and the usage of the load is stored, which is part of its cost. */
  drained?(): Promise<void>;
  /** After that: compares the usage records of the last run with the calls of the model server. */
  books?(): Promise<Books>;
}

/** `models`: each client asks them in turn. */
export function questionFor(
  { urls, headers, asked = chat }: Pick<Gateway, 'urls' | 'headers' | 'asked'>,
  fields: object,
  models: readonly string[] = [modelName],
): Question {
  const bodies = models.map((model) => JSON.stringify({ model, ...asked.fields, ...fields }));
  return {
    urls: urls.map((url) => `${url}${asked.path}`),
    headers: { 'content-type': 'application/json', ...headers },
    bodies,
  };
}
