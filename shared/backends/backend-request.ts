import { oncePerObject } from '../once-per-object.ts';
import type { Backend } from '../plan-file/plan-file.ts';

/** Where a call of a backend goes. `path` has the parameters of the backend. */
export type BackendAddress = { origin: string; path: string };

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
export function healthAddressOf(backend: Backend): BackendAddress {
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
