import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Stack } from './stack.ts';

/** The account that has the key. */
export const demoAccount = 'demo';
const keyName = 'npm start';
/** Beside the secrets of the stack, and readable by its owner only, as these. */
const keyFile = 'demo-key';
const withinMs = 10_000;

/**
 * Returns a key of the account `demo` that works. It is made at the first start and kept with the data of the stack, so that each start has
 * the same one and a terminal that knows it can go on. If it was revoked, or if the store is another one, a further key is made. Returns
 * undefined if the store does not answer: the stack can run without it.
 */
export async function openDemoKey({ ingresses, directory, identity }: Stack): Promise<string | undefined> {
  const url = ingresses[0]?.url ?? '';
  const file = join(directory, keyFile);
  const kept = (await readFile(file, 'utf8').catch(() => '')).trim();
  try {
    if (kept !== '' && (await works(url, kept))) return kept;
    const key = await createKey(url, await identity.token(demoAccount));
    await writeFile(file, `${key}\n`, { mode: 0o600 });
    return key;
  } catch {
    return undefined;
  }
}

async function createKey(url: string, token: string): Promise<string> {
  const response = await fetch(`${url}/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: keyName }),
    signal: AbortSignal.timeout(withinMs),
  });
  return z.object({ key: z.string() }).parse(await response.json()).key;
}

async function works(url: string, key: string): Promise<boolean> {
  const headers = { authorization: `Bearer ${key}` };
  const { status } = await fetch(`${url}/v1/models`, { headers, signal: AbortSignal.timeout(withinMs) });
  return status !== 401;
}
