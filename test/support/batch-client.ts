import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';
import type { Stack } from '../stack/stack.ts';
import { documentedFetch } from './documented/documented-fetch.ts';

export type BatchLine = {
  id: string;
  custom_id: string;
  response: { status_code: number; request_id: string; body: OpenAI.ChatCompletion & { code?: string } } | null;
  error: { code: string; message: string } | null;
};

export type LineOptions = { model?: string; maxTokens?: number; content?: string };

/** A line of an input file, as text without its line feed. */
export function lineOf(
  customId: string,
  { model = 'small-chat', maxTokens = 4, content = customId }: LineOptions = {},
) {
  const body = { model, max_tokens: maxTokens, messages: [{ role: 'user', content }] };
  return JSON.stringify({ custom_id: customId, method: 'POST', url: '/v1/chat/completions', body });
}

export function linesOf(count: number, options?: LineOptions, prefix = 'line'): string {
  return Array.from({ length: count }, (_, index) => `${lineOf(`${prefix}-${index + 1}`, options)}\n`).join('');
}

const over = ['failed', 'completed', 'expired', 'cancelled'];

/** `fetch`: for an ingress whose answers are not those of this version's document. */
type Service = Pick<Stack, 'ingresses' | 'mintKey'> & { fetch?: typeof fetch };

/** A batch user with the official SDK, by default with a new developer key of this account, at the base path `base`. */
export async function openBatchClient(stack: Service, account: string, key?: string, base = '/v1') {
  const apiKey = key ?? (await stack.mintKey(account));
  const baseURL = `${stack.ingresses[0]?.url}${base}`;
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, fetch: stack.fetch ?? documentedFetch });

  async function upload(text: string | Uint8Array): Promise<string> {
    const file = await client.files.create({ file: await toFile(Buffer.from(text), 'in.jsonl'), purpose: 'batch' });
    return file.id;
  }

  async function create(text: string | Uint8Array) {
    const input_file_id = await upload(text);
    return client.batches.create({ input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' });
  }

  /** Polls the batch until `holds` is true. Fails the test if the batch stands still for `stillMs`. */
  async function until(id: string, holds: (batch: OpenAI.Batch) => boolean, stillMs = 60_000): Promise<OpenAI.Batch> {
    let latest = '';
    let movedAt = Date.now();
    for (;;) {
      // A killed ingress or an unreachable store says nothing about the batch.
      const batch = await client.batches.retrieve(id).catch(() => undefined);
      if (batch !== undefined && holds(batch)) return batch;
      const present = batch === undefined ? latest : JSON.stringify([batch.status, batch.request_counts]);
      if (present !== latest) movedAt = Date.now();
      latest = present;
      if (Date.now() - movedAt > stillMs)
        throw new Error(`the batch did not reach the expected state: ${JSON.stringify(batch)}`);
      await sleep(100);
    }
  }

  async function read(file: string | undefined): Promise<BatchLine[]> {
    if (file === undefined) return [];
    const text = await (await client.files.content(file)).text();
    return text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as BatchLine); // a file of the service itself
  }

  return {
    client,
    apiKey,
    upload,
    create,
    until,
    ended: (id: string, stillMs?: number) => until(id, ({ status }) => over.includes(status), stillMs),
    /** Every line of a finished batch, those of the error file last. */
    lines: async (batch: OpenAI.Batch) => [
      ...(await read(batch.output_file_id ?? undefined)),
      ...(await read(batch.error_file_id ?? undefined)),
    ],
    output: (batch: OpenAI.Batch) => read(batch.output_file_id ?? undefined),
    errors: (batch: OpenAI.Batch) => read(batch.error_file_id ?? undefined),
  };
}

export type BatchClient = Awaited<ReturnType<typeof openBatchClient>>;

/** Prompt and completion tokens of all answers in the results. */
export function tokensIn(lines: readonly BatchLine[]): number {
  return lines.reduce((sum, { response }) => sum + (response?.body.usage?.total_tokens ?? 0), 0);
}
