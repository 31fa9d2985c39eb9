import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { Busboy } from '@fastify/busboy';
import { ApiError, validationError } from '../../shared/errors.ts';
import { cleanFilename } from './clean-filename.ts';
import { createFormFields } from './form-fields.ts';

type Wishes<Taken> = {
  boundary: string;
  fileBytesMax: number;
  /** Aborted with the failure that ends the reading. */
  signal: AbortSignal;
  /** Given the file as it comes; has to read all of it, or to fail. */
  take: (filename: string, bytes: AsyncIterable<Uint8Array>) => Promise<Taken>;
};

const partsMax = 10;
const limits = { files: 1, parts: partsMax, fieldSize: 1_024, headerPairs: 20, headerSize: 8_192 };

/**
 * Reads a form (`multipart/form-data`, RFC 7578) of one file, which it holds no more of than a few pieces: the connection
 * waits for whoever takes it. Resolves with what has become of the file once all of the body has come and nothing in it is
 * wrong. Where it fails, by `VALIDATION_ERROR`, `PAYLOAD_TOO_LARGE`, `take`'s failure or the signal's, `take` has ended.
 */
export async function readForm<Taken>(req: IncomingMessage, wishes: Wishes<Taken>): Promise<Taken> {
  const { boundary, fileBytesMax, signal, take } = wishes;
  const headers = { 'content-type': `multipart/form-data; boundary="${boundary}"` };
  const parser = new Busboy({ headers, preservePath: true, limits: { ...limits, fileSize: fileBytesMax } });
  const whole = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {}); // it may come when nobody waits for it any more
  const fields = createFormFields();
  let file: Readable | undefined;
  let taking: Promise<Taken> | undefined;

  function fail(error: unknown): void {
    failed.reject(error);
    file?.destroy(error as Error); // ApiErrors, and what the signal and the parser fail with
  }

  function attempt(step: () => void): void {
    try {
      step();
    } catch (error) {
      fail(error);
    }
  }

  parser.on('field', (name: string | undefined, value) => fields.field(name, value));
  parser.on('file', (name: string | undefined, bytes, given: string | undefined) => {
    // Without a listener the parser's failures would end the process.
    bytes.on('error', () => {});
    bytes.once('limit', () => fail(fileTooLarge(fileBytesMax)));
    attempt(() => {
      const filename = cleanFilename(given ?? '');
      fields.file(name, filename);
      fields.check();
      file = bytes;
      taking = take(filename, bytes);
      taking.catch(fail);
    });
  });
  parser.on('filesLimit', () => fail(malformed('expected one file')));
  parser.on('partsLimit', () => fail(malformed(`expected at most ${partsMax} parts`)));
  parser.on('error', (error) => fail(malformed('expected multipart/form-data up to its last boundary', error)));
  const onAbort = () => fail(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });

  try {
    // Both: what comes after the last boundary is read, too, and counted by whoever watches the body.
    let ends = 0;
    const onEnd = () => void (++ends === 2 && whole.resolve());
    parser.once('finish', onEnd);
    req.once('end', onEnd);
    req.pipe(parser);
    await Promise.race([whole.promise, failed.promise]);
    fields.end();
    if (taking === undefined) throw new Error('a form has a file that nobody took');
    return await Promise.race([taking, failed.promise]);
  } catch (error) {
    fail(error);
    req.unpipe(parser);
    await (taking as Promise<Taken> | undefined)?.catch(() => {}); // set by a listener
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function malformed(message: string, cause?: unknown): ApiError {
  return validationError([{ path: 'body', message }], cause);
}

function fileTooLarge(bytesMax: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The file is larger than ${bytesMax} bytes.`);
}
