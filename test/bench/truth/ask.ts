import { Agent, request } from 'undici';
import { chatPath, modelName } from '../gateways/gateway.ts';

/** `status` 0: there was no answer. Times in milliseconds of this process's clock. `tokens` as reported by a whole answer. */
export type TimedAnswer = { sentAt: number; endedAt: number; status: number; tokens: number };

export type Client = AsyncDisposable & {
  /** A complete answer to this question. */
  ask(key: string, question: string, fields?: object): Promise<TimedAnswer>;
  /** Resolves at the first token of a stream, which is then read until it breaks. */
  open(key: string, question: string): Promise<void>;
};

const answerMsMax = 60_000;

/** The one client for all gateways. Each request has its own connection, so it reaches any of the gateway's processes. */
export function openClient(url: string): Client {
  const dispatcher = new Agent({ connections: 128, bodyTimeout: 0 });

  const send = (key: string, question: string, fields: object) =>
    request(`${url}${chatPath}`, {
      ...{ method: 'POST', dispatcher, headersTimeout: answerMsMax, reset: true },
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: modelName, messages: [{ role: 'user', content: question }], ...fields }),
    });

  return {
    async ask(key, question, fields = {}) {
      const sentAt = performance.now();
      try {
        const { statusCode: status, body } = await send(key, question, fields);
        const text = await body.text();
        return { sentAt, endedAt: performance.now(), status, tokens: tokensIn(text) };
      } catch {
        return { sentAt, endedAt: performance.now(), status: 0, tokens: 0 };
      }
    },
    async open(key, question) {
      const { statusCode, body } = await send(key, question, { stream: true });
      if (statusCode !== 200) throw new Error(`a stream was answered with ${statusCode}: ${await body.text()}`);
      const bytes = body[Symbol.asyncIterator]();
      await bytes.next();
      void (async () => {
        while (!(await bytes.next()).done);
      })().catch(() => {}); // it breaks with its gateway
    },
    [Symbol.asyncDispose]: () => dispatcher.destroy(),
  };
}

function tokensIn(text: string): number {
  const [, tokens] = /"total_tokens":\s*(\d+)/.exec(text) ?? [];
  return Number(tokens ?? 0);
}
