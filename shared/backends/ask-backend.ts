import type { IncomingHttpHeaders } from 'node:http';
import type { Backend } from '../plan-file/plan-file.ts';
import type { BackendAgents } from './backend-agents.ts';
import type { BackendKeys } from './backend-keys.ts';
import { type BackendAddress, headersOf, healthAddressOf } from './backend-request.ts';

/** The time of a health test, and of each question about what a backend is. */
export const askMs = 3_000;
/** A list of models of a large provider has about 600 KB. */
const bytesMax = 1_048_576;

/** `text`: undefined if the body is too long, or not UTF-8. */
export type AskAnswer = { status: number; headers: IncomingHttpHeaders; text: string | undefined };

/** Asks one address of a backend with `GET`. Fails if there is no complete answer in time. Redirects are not followed. */
export type AskBackend = (backend: Backend, address: BackendAddress) => Promise<AskAnswer>;

export function createAskBackend({
  agents,
  keys,
  timeoutMs = askMs,
}: {
  agents: Pick<BackendAgents, 'of'>;
  keys: Pick<BackendKeys, 'of' | 'lacks'>;
  timeoutMs?: number;
}): AskBackend {
  return async function askBackend(backend, address) {
    if (keys.lacks(backend)) throw new Error('the variable with its API key is not set');
    const { statusCode, headers, body } = await agents.of(backend).request({
      ...address,
      method: 'GET',
      headers: headersOf(backend, keys.of(backend)),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const pieces: Buffer[] = [];
    let length = 0;
    for await (const piece of body) {
      const bytes = piece as Buffer; // a body without an encoding gives buffers
      length += bytes.length;
      if (length > bytesMax) break; // ends the connection
      pieces.push(bytes);
    }
    return { status: statusCode, headers, text: length > bytesMax ? undefined : textOf(pieces) };
  };
}

/** Asks for the health of a backend. Fails for a status of 500 or more, and without an answer in time. */
export async function testHealth(ask: AskBackend, backend: Backend): Promise<AskAnswer> {
  const asked = await ask(backend, healthAddressOf(backend));
  if (asked.status >= 500) throw new Error(`the backend answered ${asked.status}`);
  return asked;
}

function textOf(pieces: readonly Buffer[]): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(pieces));
  } catch {
    return undefined;
  }
}
