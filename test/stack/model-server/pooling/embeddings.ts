import { createHash } from 'node:crypto';
import { z } from 'zod';
import { defineEndpoint } from '../endpoint.ts';
import { pieces } from '../model/text.ts';
import { openAiErrors, openAiForm } from '../openai-form.ts';

const dimensionsDefault = 8;
const dimensionsMax = 65_536;

const ids = z.array(z.int().min(0)).min(1);

const embeddingsSchema = z.looseObject({
  model: z.string().min(1),
  input: z.union([z.string(), z.array(z.string()).min(1), ids, z.array(ids).min(1)]),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: z.int().positive().max(dimensionsMax).nullish(),
});

type Body = z.infer<typeof embeddingsSchema>;
type Input = Body['input'];
/** What its embeddings depend on. */
type Asked = Partial<Pick<Body, 'dimensions' | 'encoding_format'>> & { input: Input };
type OneInput = string | readonly number[];

const form = openAiForm({
  // An embedding has no text of the model. The name is the only text of a reply.
  textOpenings: ['"model":"'],
  wholeUpToText: '{"object":"list","model":"',
  eventUpToText: 'data: {"object":"list","model":"',
  eventAfterText: '"}\n\n',
  emptyEvent: 'data: {"object":"list"}\n\n',
});

export const embeddings = defineEndpoint({
  path: '/v1/embeddings',
  streams: false,
  errors: openAiErrors,
  schema: embeddingsSchema,
  answer({ model, ...body }, { id, created, withUsage }) {
    const promptTokens = embeddingTokensOf(body.input);
    const written = () => {
      const head = JSON.stringify({ id: `embd-${id}`, object: 'list', created, model });
      const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens };
      return [
        Buffer.from(`${head.slice(0, -1)},"data":`),
        knownData(wantedBy(body)),
        Buffer.from(`${withUsage ? `,"usage":${JSON.stringify(usage)}` : ''}}`),
      ];
    };
    const whole = () => Buffer.concat(written()).toString();
    return { promptTokens, completionTokens: 0, whole, written, events: () => [], form };
  },
});

type Wanted = { input: Input; dimensions: number; isText: boolean };

const dataKnownMax = 16;
const dataKnown = new Map<string, Buffer>();
let bytesWritten = 0;

/** Writes the embeddings of a request before it is sent, so that no other one waits for them. */
export function writeEmbeddings(body: Asked): void {
  knownData(wantedBy(body));
}

/** The bytes of all embeddings that this process has written so far. */
export function embeddingBytesWritten(): number {
  return bytesWritten;
}

function wantedBy({ input, dimensions, encoding_format: format }: Asked): Wanted {
  return { input, dimensions: dimensions ?? dimensionsDefault, isText: format === 'base64' };
}

/** The list of embeddings as JSON. Writing a large one takes as long as many requests, so the last ones are kept. */
function knownData(wanted: Wanted): Buffer {
  const name = JSON.stringify(wanted);
  const data = dataKnown.get(name) ?? writtenData(wanted);
  dataKnown.delete(name);
  dataKnown.set(name, data);
  const [oldest] = dataKnown.keys();
  if (dataKnown.size > dataKnownMax && oldest !== undefined) dataKnown.delete(oldest);
  return data;
}

function writtenData(wanted: Wanted): Buffer {
  const data = Buffer.from(dataOf(wanted));
  bytesWritten += data.length;
  return data;
}

function dataOf({ input, dimensions, isText }: Wanted): string {
  const data = inputsOf(input).map((one, index) => {
    const vector = embeddingFor(one, dimensions);
    return { object: 'embedding', index, embedding: isText ? base64Of(vector) : vector };
  });
  return JSON.stringify(data);
}

/**
 * The embedding of one input: a vector of length 1 that is the same for the same input. Its numbers are exact in 32 bits, so that both
 * encodings contain the same ones.
 */
export function embeddingFor(input: OneInput, dimensions = dimensionsDefault): number[] {
  const outputLength = dimensions * Int32Array.BYTES_PER_ELEMENT;
  const bytes = createHash('shake256', { outputLength }).update(JSON.stringify(input)).digest();
  const numbers = Array.from({ length: dimensions }, (_, index) => bytes.readInt32LE(index * 4));
  const length = Math.hypot(...numbers);
  return numbers.map((number) => Math.fround(number / length));
}

/** The tokens of all inputs. A token id is one token. */
export function embeddingTokensOf(input: Input): number {
  return inputsOf(input).reduce((sum, one) => sum + (typeof one === 'string' ? pieces(one) : one).length, 0);
}

function inputsOf(input: Input): OneInput[] {
  if (typeof input === 'string') return [input];
  const numbers = input.filter((part) => typeof part === 'number');
  return numbers.length > 0 ? [numbers] : input.filter((part) => typeof part !== 'number');
}

function base64Of(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * Float32Array.BYTES_PER_ELEMENT);
  for (const [index, number] of vector.entries()) bytes.writeFloatLE(number, index * Float32Array.BYTES_PER_ELEMENT);
  return bytes.toString('base64');
}
