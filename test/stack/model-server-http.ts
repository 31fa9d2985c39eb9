import type { IncomingMessage, ServerResponse } from 'node:http';

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

/** An error in OpenAI's shape. */
export function sendError(
  res: ServerResponse,
  status: number,
  error: { message: string; param?: string | null; code?: string | null },
): void {
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  sendJson(res, status, {
    error: { message: error.message, type, param: error.param ?? null, code: error.code ?? null },
  });
}

export function isAuthorized(req: IncomingMessage, apiKey: string | undefined): boolean {
  return apiKey === undefined || req.headers.authorization === `Bearer ${apiKey}`;
}
