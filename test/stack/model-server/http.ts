import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ErrorFields, ErrorForm } from './endpoint.ts';
import { openAiErrors } from './openai-form.ts';

const bodyBytesMax = 64 * 1024 * 1024;

/** The complete body as text. Rejects when the client leaves first, or sends more than 64 MiB. */
export function readBody(req: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    req.on('data', (part: Buffer) => {
      parts.push(part);
      length += part.length;
      if (length > bodyBytesMax) reject(new Error('the body is too long'));
    });
    req.on('end', () => resolve(Buffer.concat(parts, length).toString()));
    req.on('error', reject);
  });
}

/** The parsed text, or `undefined` if it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function sendJson(res: ServerResponse, status: number, value: unknown): void {
  const bytes = Buffer.from(JSON.stringify(value));
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length }).end(bytes);
}

/** An error, in OpenAI's shape unless the endpoint has its own. */
export function sendError(
  res: ServerResponse,
  status: number,
  error: ErrorFields,
  { body }: ErrorForm = openAiErrors,
): void {
  sendJson(res, status, body(status, error));
}

/** Whether the call has the key, as bearer token or in the header that its endpoint allows instead. */
export function isAuthorized(req: IncomingMessage, apiKey: string | undefined, keyHeader?: string): boolean {
  if (apiKey === undefined || req.headers.authorization === `Bearer ${apiKey}`) return true;
  return keyHeader !== undefined && req.headers[keyHeader] === apiKey;
}
