export type Part = {
  name?: string;
  filename?: string;
  type?: string;
  /** The lines of its head, instead of the three above. */
  head?: readonly string[];
  body: string | Buffer;
};

export const boundary = '----a-boundary-of-a-test';

/** A form as a client writes it (RFC 7578). */
export function multipart(parts: readonly Part[], between = boundary): Buffer {
  const pieces = parts.flatMap((part) => [
    Buffer.from(`--${between}\r\n${(part.head ?? headOf(part)).map((line) => `${line}\r\n`).join('')}\r\n`),
    Buffer.from(part.body),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${between}--\r\n`)]);
}

function headOf({ name, filename, type }: Part): string[] {
  const names = [
    ...(name === undefined ? [] : [`name="${name}"`]),
    ...(filename === undefined ? [] : [`filename="${filename}"`]),
  ];
  return [
    `Content-Disposition: ${['form-data', ...names].join('; ')}`,
    ...(type === undefined ? [] : [`Content-Type: ${type}`]),
  ];
}

export const contentType = (between = boundary) => `Content-Type: multipart/form-data; boundary=${between}`;

export const purpose: Part = { name: 'purpose', body: 'batch' };
export const file = (body: string | Buffer, filename = 'in.jsonl'): Part => ({
  name: 'file',
  filename,
  type: 'application/octet-stream',
  body,
});
