import { setTimeout as sleep } from 'node:timers/promises';
import Anthropic from '@anthropic-ai/sdk';
import type { ExecutionContext } from 'ava';
import OpenAI from 'openai';
import type { Stack } from '../../stack/stack.ts';
import { createKeyClient } from '../key-client.ts';

type Tokens = { promptTokens: number; completionTokens: number };
type Options = { plan?: string; maxRetries?: number; fetch?: typeof fetch };

export type Account = Awaited<ReturnType<typeof openAccount>>;

/** A new account of the stack with a key, and the official clients that use it, without retries unless asked for. */
export async function openAccount(stack: Stack, name: string, { plan, maxRetries = 0, fetch }: Options = {}) {
  const keys = createKeyClient(stack);
  const key = await keys.newKey(name);
  if (plan !== undefined) await keys.change(`user:${name}`, { plan });
  const url = stack.ingresses[0]?.url ?? '';
  const settings = { apiKey: key, maxRetries, ...(fetch && { fetch }) };

  async function usageWith(requests: number) {
    for (;;) {
      const { body } = await keys.send('GET', '/billing/usage', { bearer: key });
      const { total } = body as {
        total: Tokens & { requests: number; failed: number; cancelled: number; chargedTokens: number };
      }; // the service's own answer
      if (total.requests >= requests) return total;
      await sleep(30);
    }
  }

  return {
    ...{ key, url },
    /** With errors as OpenAI's SDKs parse them. */
    openai: new OpenAI({ ...settings, baseURL: `${url}/openai/v1` }),
    /** With the usual errors. */
    plain: new OpenAI({ ...settings, baseURL: `${url}/v1` }),
    anthropic: new Anthropic({ ...settings, baseURL: url }),
    post: (path: string, body: object | string, headers: Record<string, string> = { authorization: `Bearer ${key}` }) =>
      globalThis.fetch(`${url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    usageWith,
    /** Requires that the records of these requests, and the quota, have exactly these tokens. */
    async assertCharged(
      t: ExecutionContext,
      requests: number,
      { promptTokens, completionTokens }: Tokens,
    ): Promise<void> {
      const total = await usageWith(requests);
      const chargedTokens = promptTokens + completionTokens;
      t.like(total, { requests, failed: 0, cancelled: 0, promptTokens, completionTokens, chargedTokens });
      const { body } = await keys.send('GET', '/billing/quota', { bearer: key });
      t.like(body, { used: chargedTokens, reserved: 0 });
    },
  };
}

/** The sum of the tokens of several predicted answers. */
export function sumOf(...answers: readonly Tokens[]): Tokens {
  return {
    promptTokens: answers.reduce((sum, { promptTokens }) => sum + promptTokens, 0),
    completionTokens: answers.reduce((sum, { completionTokens }) => sum + completionTokens, 0),
  };
}
