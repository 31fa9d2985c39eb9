import { exchange } from '../../support/raw-http.ts';
import { head } from '../../support/refusal.ts';
import { type Attacker, attackerAddress } from '../attack.ts';
import { outcomeOf } from './outcome.ts';

const withinMs = 60_000;

/** Sends these bytes on a new connection, and counts the first answer. Rejects if there is none. */
export async function sendBytes({ target: { port }, count }: Attacker, bytes: Buffer): Promise<string> {
  const { status, body } = await exchange({ port, send: bytes, localAddress: attackerAddress, withinMs });
  count(outcomeOf(status, body));
  return body;
}

type Post = {
  path: string;
  key?: string | undefined;
  contentType?: string;
  body: string | Buffer;
};

/** A request as bytes, with the length of its body. */
export function post({ path, key, contentType = 'application/json', body }: Post): Buffer {
  const lines = [
    ...(key === undefined ? [] : [`Authorization: Bearer ${key}`]),
    `Content-Type: ${contentType}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.concat([Buffer.from(head(`POST ${path} HTTP/1.1`, ...lines)), Buffer.from(body)]);
}
