import type { IncomingMessage } from 'node:http';
import type { Readable, Writable } from 'node:stream';
import { Busboy } from '@fastify/busboy';
import { ApiError, type ValidationIssue, validationError } from '../../shared/errors.ts';
import { shownFieldName } from '../listener/json-body.ts';

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

/** `keptSeconds`: how long the file is kept, if its owner says so. */
type UploadFields = { keptSeconds: number | undefined };

/** As in OpenAI's API. The most that is allowed depends on the plan file. */
export const keptSecondsMin = 3_600;

export const daySeconds = 86_400;

const [anchorField, secondsField] = ['expires_after[anchor]', 'expires_after[seconds]'];
const textFields: readonly string[] = ['purpose', anchorField, secondsField];

/** The parts of an upload: `purpose`, which is `batch`, one `file`, and the two of `expires_after`, in any order. */
function createFormFields({ keptSecondsMax }: { keptSecondsMax: number }) {
  const issues: ValidationIssue[] = [];
  const seen = new Set<string>();
  let keptSeconds: number | undefined;
  const add = (path: string, message: string) => void issues.push({ path, message });

  function addUnknown(name: string | undefined): void {
    if (name === undefined || name === '') add('body', 'has a part without a name');
    else add(shownFieldName(name), 'is not known');
  }

  function see(name: string): void {
    if (seen.has(name)) add(name, 'expected once');
    seen.add(name);
  }

  function readSeconds(value: string): number {
    const seconds = /^\d{1,10}$/.test(value) ? Number(value) : 0;
    if (seconds < keptSecondsMin || seconds > keptSecondsMax)
      add(secondsField, `expected ${keptSecondsMin} to ${keptSecondsMax} seconds`);
    return seconds;
  }

  /** Fails with `VALIDATION_ERROR`, which names all errors so far. */
  function check(): void {
    if (issues.length > 0) throw validationError(issues);
  }

  return {
    field(name: string | undefined, value: string): void {
      if (name === 'file') add(name, 'expected a file with a name');
      else if (name === undefined || !textFields.includes(name)) addUnknown(name);
      else {
        see(name);
        if (name === secondsField) keptSeconds = readSeconds(value);
        else if (name === 'purpose' && value !== 'batch') add(name, 'expected "batch"');
        else if (name === anchorField && value !== 'created_at') add(name, 'expected "created_at"');
      }
    },
    /** A file part. Only one is allowed; its field name must be `file`, and it must have a file name. */
    file(name: string | undefined, filename: string): void {
      if (name !== undefined && textFields.includes(name)) add(name, 'expected text, not a file');
      else if (name !== 'file') addUnknown(name);
      else {
        see(name);
        if (filename === '') add(name, 'expected a file with a name');
      }
    },
    check,
    /** The same at the end of the form; also names missing parts. */
    end(): UploadFields {
      const required = ['purpose', 'file'];
      if (seen.has(anchorField) || seen.has(secondsField)) required.push(anchorField, secondsField);
      for (const name of required) {
        if (!seen.has(name) && !issues.some(({ path }) => path === name)) add(name, 'is required');
      }
      check();
      return { keptSeconds };
    },
  };
}

const charactersMax = 255;

/** Always removed: control characters, lone surrogates (not every store can keep them), line separators, annotation marks. */
const unprintable = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\uFFF9-\uFFFB]/u;
/** Invisible: direction marks, which can show `fdp.exe` as `exe.pdf`, zero-width spaces, tags, joiners, variation selectors. */
const invisible = /\p{Default_Ignorable_Code_Point}/u;

/** Scripts whose letters join or form clusters. In other scripts, a joiner only makes two different names look the same. */
const joining =
  /[[\p{L}\p{M}]--[\p{scx=Latin}\p{scx=Greek}\p{scx=Cyrillic}\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Inherited}\p{scx=Common}]]/v;

/** Invisible characters that change the appearance of the character before them, with the characters that they can follow. */
const modifiers: readonly (readonly [character: RegExp, after: RegExp])[] = [
  [/[\u200C\u200D]/u, joining],
  [/\u200D/u, /[\p{Extended_Pictographic}\p{Emoji_Modifier}]|\uFE0F/u],
  [/[\uFE0E\uFE0F]/u, /\p{Emoji}/u],
  [/[\uFE00-\uFE02\u{E0100}-\u{E01EF}]/u, /\p{Script=Han}/u],
  [/[\u180B-\u180D\u180F]/u, /\p{Script=Mongolian}/u],
];

/**
 * Cleans a file name from a client: removes folders, control characters and invisible characters (joiners and variation selectors stay if a
 * script or an emoji needs them), and cuts it to 255 characters. Empty if nothing is left.
 */
export function cleanFilename(given: string): string {
  const name = given.slice(Math.max(given.lastIndexOf('/'), given.lastIndexOf('\\')) + 1);
  const kept: string[] = [];
  for (const character of name) {
    if (kept.length === charactersMax) break;
    if (isShown(character, kept.at(-1) ?? '')) kept.push(character);
  }
  const clean = kept.join('');
  return clean === '.' || clean === '..' ? '' : clean;
}

function isShown(character: string, before: string): boolean {
  if (unprintable.test(character)) return false;
  if (!invisible.test(character)) return true;
  return modifiers.some(([modifier, after]) => modifier.test(character) && after.test(before));
}
