import { chatCompletions } from './chat/chat.ts';
import type { Endpoint } from './endpoint.ts';

/** Every endpoint of the simulated server, by its path. */
export function endpointsByPath(): ReadonlyMap<string, Endpoint> {
  const endpoints = [chatCompletions];
  return new Map(endpoints.map((endpoint) => [endpoint.path, endpoint]));
}
