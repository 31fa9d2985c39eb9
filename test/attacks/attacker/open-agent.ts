import { Agent, request } from 'undici';
import { type Attacker, attackerAddress } from '../attack.ts';
import { outcomeOf } from './outcome.ts';

type Sent = { method?: 'GET' | 'POST'; path: string; bearer?: string; headers?: Record<string, string>; body?: object };

/** Sends requests as HTTP clients do, on keep-alive connections, and counts each answer. */
export function openAgent({ target: { port }, signal, count }: Attacker) {
  const agent = new Agent({ localAddress: attackerAddress });
  signal.addEventListener('abort', () => void agent.destroy());
  return async function send({ method = 'POST', path, bearer, headers, body }: Sent): Promise<string> {
    const { statusCode, body: answer } = await request(`http://127.0.0.1:${port}${path}`, {
      method,
      dispatcher: agent,
      headers: {
        ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    count(outcomeOf(statusCode, text));
    return text;
  };
}
