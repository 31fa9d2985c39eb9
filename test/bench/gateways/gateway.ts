import type { Question } from '../loads/load.ts';

export const chatPath = '/v1/chat/completions';
export const modelName = 'small-chat';

/** What has become of the calls of one run: all of them 0, or usage was let through, lost or counted twice. */
export type Books = { overAdmitted: number; lostUsage: number; duplicates: number };

/** Something between clients and the model server that can be measured. */
export interface Gateway extends AsyncDisposable {
  /** Where clients ask; of several each gets as many clients. */
  readonly urls: readonly string[];
  readonly headers: Record<string, string>;
  /** By what they are, the processes it consists of. */
  processes(): Promise<Record<string, number[]>>;
  /** Resolves when nothing is under way and what the load has used is written down, which is part of its cost. */
  drained?(): Promise<void>;
  /** After that: what is written down of the last run, compared with what the model server has seen. */
  books?(): Promise<Books>;
}

export function questionFor({ urls, headers }: Gateway, fields: object): Question {
  const body = { model: modelName, messages: [{ role: 'user', content: 'Hello' }], ...fields };
  return {
    urls: urls.map((url) => `${url}${chatPath}`),
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  };
}
