import fc from 'fast-check';
import { createUploadFile } from '../../ingress/files/upload-file.ts';
import type { StoredFile } from '../../shared/batches/batch.ts';
import { emptyRoom } from '../../shared/batches/batch-room.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { hostileLines } from '../support/hostile-lines.ts';
import { boundary, file, multipart, purpose } from '../support/multipart.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { declaredError } from './declared-error.ts';
import { fakeContext, inPieces } from './fake-request.ts';
import { fuzzPlan } from './fuzz-plan.ts';
import { type FuzzTarget, require } from './search/fuzz-target.ts';

const planFile = { ...fuzzPlan(), batch: { ...fuzzPlan().batch, fileBytesMax: 20_000, requestsMax: 50 } };
const contentType = `multipart/form-data; boundary=${boundary}`;
const parts = fc.oneof(
  fc.constant(purpose),
  hostileLines.map((lines) => file(lines)),
  fc.record({ name: fc.string(), body: fc.string() }),
  fc.record({ name: fc.constant('file'), filename: fc.string({ unit: 'binary' }), body: fc.string() }),
);

/** Uploads: the first line is the header `Content-Type`, the rest is the body. */
export const forms: FuzzTarget = {
  promise:
    'an upload is stored or rejected as declared, however its bytes are split, and a rejected one leaves nothing',
  words: [
    ...[
      '\r\n',
      '\n',
      '\r',
      '--',
      `--${boundary}`,
      `\r\n--${boundary}\r\n`,
      `\r\n--${boundary}--\r\n`,
      `--${boundary}--`,
    ],
    ...[
      'Content-Disposition: form-data; name="file"; filename="a"',
      'name="purpose"',
      "filename*=UTF-8''%e2%82%ac",
      '"',
    ],
    ...[
      'Content-Type: text/plain; charset=utf-16',
      'Content-Transfer-Encoding: base64',
      'name=',
      'filename=""',
      ';',
      '\\',
    ],
    ...[
      'name*0=a',
      '\0',
      '../',
      '\u202e',
      'batch',
      'boundary=',
      'multipart/form-data',
      '{"custom_id":"a"}',
      '%ff',
      'utf-7',
    ],
  ],
  structured: fc
    .tuple(parts, fc.array(parts, { maxLength: 4 }))
    .map(([first, others]) => Buffer.concat([Buffer.from(`${contentType}\n`), multipart([first, ...others])])),
  async check(input) {
    const end = input.indexOf(10);
    const [type, body] = [input.subarray(0, end).toString('latin1'), input.subarray(end + 1)];
    const whole = await uploaded(type, [body]);
    const inParts = await uploaded(type, inPieces(body));
    require(whole.outcome === inParts.outcome, `${whole.outcome}, but in pieces ${inParts.outcome}`);
    return whole.code;
  },
};

const dispositions = ['VALIDATION_ERROR', 'PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'] as const;

async function uploaded(type: string, body: readonly Uint8Array[]): Promise<{ code: string; outcome: string }> {
  const { store, kept } = memoryStore();
  const upload = createUploadFile({ store, giveUp: new AbortController().signal, log: recordedLog().log });
  const caller = { account: 'user:alice', plan: 'free', suspended: false, version: 0, overageEnabled: false };
  const { req, res } = fakeContext({ 'content-type': type }, body, { planFile, requestId: 'req_1' });
  try {
    await upload({ req, res }, { caller, now: 1_800_000_000_000, limits: planFile.batch });
  } catch (error) {
    const code = declaredError(error, dispositions);
    require(kept().length === 0, 'a rejected upload left something');
    return { code, outcome: code };
  }
  const [one, ...others] = kept();
  require(one !== undefined && others.length === 0 && one.state === 'ready', 'the upload is missing');
  const { filename, bytes, lines, tokens, written = '' } = one;
  const sent = Buffer.concat(body).toString('latin1');
  require(written.length === bytes && sent.includes(`\r\n\r\n${written}\r\n--`), 'it is not the file that was sent');
  require(sent.includes('batch\r\n--'), 'it has no purpose');
  require(lines >= 1 && lines <= planFile.batch.requestsMax && Number.isSafeInteger(tokens), `it has ${lines} lines`);
  require(filename !== '' &&
    filename.isWellFormed() &&
    !/[/\\\p{Cc}]/u.test(filename), 'its name contains forbidden characters');
  return { code: 'accepted', outcome: JSON.stringify([filename, bytes, lines, tokens, written]) };
}

/** The records and bytes of files in a store, for one upload. */
function memoryStore() {
  const records = new Map<string, StoredFile>();
  const contents = new Map<string, string>();
  const batches = {
    countFiles: async () => ({ files: 0, bytes: 0 }),
    findRoom: async () => emptyRoom,
    async insertFile(file: StoredFile) {
      records.set(file.id, file);
      return true;
    },
    async changeFile(id: string, _from: StoredFile['state'], change: Partial<StoredFile>) {
      const record = records.get(id);
      if (record !== undefined) records.set(id, { ...record, ...change });
      return record !== undefined;
    },
    async removeFile(id: string) {
      records.delete(id);
    },
  };
  const files = {
    async write(id: string, chunks: AsyncIterable<Uint8Array>) {
      const pieces: Uint8Array[] = [];
      for await (const chunk of chunks) pieces.push(Buffer.from(chunk));
      const whole = Buffer.concat(pieces);
      contents.set(id, whole.toString('latin1'));
      return whole.length;
    },
    async remove(id: string) {
      contents.delete(id);
    },
  };
  const kept = () =>
    [...new Set([...records.keys(), ...contents.keys()])].map((id) => {
      const record = records.get(id);
      require(record !== undefined, 'there are bytes without a record');
      return { ...record, written: contents.get(id) };
    });
  // An upload calls no other methods of a store.
  return { store: { batches, files } as unknown as Pick<Store, 'batches' | 'files'>, kept };
}
