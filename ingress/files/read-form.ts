import type { IncomingMessage } from 'node:http';
import type { Readable, Writable } from 'node:stream';
import { Busboy } from '@fastify/busboy';
import { ApiError, validationError } from '../../shared/errors.ts';
import { cleanFilename } from './clean-filename.ts';
import { createFormFields, type UploadFields } from './form-fields.ts';

type FormOptions<Taken> = {
  boundary: string;
  fileBytesMax: number;
  keptSecondsMax: number;
  /** Aborted with the failure that stops the read. */
  signal: AbortSignal;
  /** Receives the file as it arrives; must read all of it, or fail. */
  take: (filename: string, bytes: AsyncIterable<Uint8Array>) => Promise<Taken>;
};

const partsMax = 10;
const limits = { files: 1, parts: partsMax, fieldSize: 1_024, headerPairs: 20, headerSize: 8_192 };

/**
 * Reads a form (`multipart/form-data`, RFC 7578) with one file. Holds only a few chunks of it (decisions.md#forms-by-busboy): `take` sets
 * the pace of the connection. Resolves with its fields and the result of `take` after the complete body has arrived and is valid. Fails
 * with `VALIDATION_ERROR`, `PAYLOAD_TOO_LARGE`, the failure of `take` or the reason of the signal; `take` has ended by then.
 */
export async function readForm<Taken>(
  req: IncomingMessage,
  options: FormOptions<Taken>,
): Promise<UploadFields & { taken: Taken }> {
  const { boundary, fileBytesMax, signal, take } = options;
  const headers = { 'content-type': `multipart/form-data; boundary="${boundary}"` };
  const parser = new Busboy({ headers, preservePath: true, limits: { ...limits, fileSize: fileBytesMax } });
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {}); // it may reject after the last wait for it
  const fields = createFormFields(options);
  let file: Readable | undefined;
  let taking: Promise<Taken> | undefined;

  function fail(error: unknown): void {
    failed.reject(error);
    file?.destroy(error as Error); // ApiErrors, and the failures of the signal and the parser
  }

  parser.on('field', (name: string | undefined, value) => fields.field(name, value));
  parser.on('file', (name: string | undefined, bytes, given: string | undefined) => {
    // Without a listener, failures of the parser would end the process.
    bytes.on('error', () => {});
    bytes.once('limit', () => fail(fileTooLarge(fileBytesMax)));
    try {
      const filename = cleanFilename(given ?? '');
      fields.file(name, filename);
      fields.check();
      file = bytes;
      taking = take(filename, bytes);
      taking.catch(fail);
    } catch (error) {
      fail(error);
    }
  });
  parser.on('filesLimit', () => fail(malformed('expected one file')));
  parser.on('partsLimit', () => fail(malformed(`expected at most ${partsMax} parts`)));
  parser.on('error', (error) => fail(malformed('expected multipart/form-data up to its last boundary', error)));
  const onAbort = () => fail(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });

  try {
    const ended = bothEnded(req, parser);
    req.pipe(parser);
    await Promise.race([ended, failed.promise]);
    const ofFields = fields.end();
    if (taking === undefined) throw new Error('a form has a file that was not taken');
    return { ...ofFields, taken: await Promise.race([taking, failed.promise]) };
  } catch (error) {
    fail(error);
    req.unpipe(parser);
    await (taking as Promise<Taken> | undefined)?.catch(() => {}); // set by a listener
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** The request as well as the parser: bytes after the last boundary are read, too, and counted by `watchBody`. */
function bothEnded(req: IncomingMessage, parser: Writable): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let ends = 0;
  const onEnd = () => void (++ends === 2 && resolve());
  parser.once('finish', onEnd);
  req.once('end', onEnd);
  return promise;
}

function malformed(message: string, cause?: unknown): ApiError {
  return validationError([{ path: 'body', message }], cause);
}

function fileTooLarge(bytesMax: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The file is larger than ${bytesMax} bytes.`);
}
