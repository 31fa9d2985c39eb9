import type { IncomingHttpHeaders } from 'node:http';
import { oncePerObject } from '../concurrency/single-flight.ts';
import type { Backend } from '../plan-file/plan-file.ts';
import type { BackendAgents } from './backend-agents.ts';
import type { BackendKeys } from './backend-keys.ts';

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

/** Where a call of a backend goes. `path` has the parameters of the backend. */
type BackendAddress = { origin: string; path: string };

/** Parsing a URL takes as long as everything else for a request. */
const partsOf = oncePerObject(({ url, query = {} }: Backend) => {
  const { origin, pathname } = new URL(url);
  const parameters = new URLSearchParams(query).toString();
  return { origin, pathname: pathname.replace(/\/$/, ''), parameters };
});

/** Returns the address of a path of the OpenAI API at this backend. */
export function addressOf(backend: Backend, path: string): BackendAddress {
  const { origin, pathname, parameters } = partsOf(backend);
  return { origin, path: withParameters(pathname + path, parameters) };
}

/** Returns the address of a path of the server itself. */
export function serverAddressOf(backend: Backend, path: string): BackendAddress {
  const { origin, parameters } = partsOf(backend);
  return { origin, path: withParameters(path, parameters) };
}

/** Returns the address that tests the health of this backend. */
function healthAddressOf(backend: Backend): BackendAddress {
  const { health = 'models' } = backend;
  if (health === 'models') return addressOf(backend, '/models');
  return serverAddressOf(backend, health.startsWith('/') ? health : `/${health}`);
}

/** Returns the headers that every call of this backend has: the fixed ones, and its key. */
export function headersOf(backend: Backend, apiKey: string | undefined): Record<string, string> {
  const { headers, apiKeyHeader = 'authorization' } = backend;
  if (apiKey === undefined) return { ...headers };
  return { ...headers, [apiKeyHeader]: apiKeyHeader === 'authorization' ? `Bearer ${apiKey}` : apiKey };
}

function withParameters(path: string, parameters: string): string {
  if (parameters === '') return path;
  return `${path}${path.includes('?') ? '&' : '?'}${parameters}`;
}
