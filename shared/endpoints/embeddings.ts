import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { isObject } from '../json/json-values.ts';
import { notAnAnswer } from './answers/backend-error.ts';
import { answerBytesMax, parseBackendJson } from './answers/parse-backend-json.ts';
import { mapped, reportedTokens, withMissing, withModel } from './answers/with-missing.ts';
import { createVectorCutter } from './cut-vectors.ts';
import type { AnswerFormat, ReportedUsage, SizeBudget, Vector, WholeAnswer } from './definition/answer-format.ts';
import { askWhole, type Endpoint, noHeaders, type RequestFormat } from './definition/endpoint.ts';
import { promptInput } from './fields/common-fields.ts';
import { publishedFields } from './fields/refused-fields.ts';
import { estimatePrompts, promptsOf } from './tokens/prompt-texts.ts';

/** All fields of OpenAI's published description of `POST /v1/embeddings` (openai/openai-openapi, `CreateEmbeddingRequest`). */
const embeddingRequestSchema = z.looseObject({
  model: z.string().min(1).meta({ description: "A model of the caller's plan that offers `embeddings`." }),
  input: promptInput,
  dimensions: z
    .int()
    .positive()
    .nullish()
    .meta({ description: 'Length of the vectors, if the model can shorten them.' }),
  encoding_format: z.enum(['float', 'base64']).nullish().meta({ description: 'Default: `float`.' }),
  user: z.string().nullish(),
});

const answerSchema = z.looseObject({
  model: z.string().nullish(),
  data: z.array(z.looseObject({})),
});

type EmbeddingAnswer = WholeAnswer & { answer: z.infer<typeof answerSchema> };

/** Zero for a prompt is no report. */
const usageSchema = z.looseObject({ prompt_tokens: reportedTokens.positive() });

function readUsage(usage: unknown): ReportedUsage | undefined {
  const tokens = usageSchema.safeParse(usage).data?.prompt_tokens;
  return tokens === undefined ? undefined : { promptTokens: tokens, completionTokens: 0, cachedTokens: 0 };
}

/** Lists of embeddings (OpenAI API reference, embeddings). The vectors pass as the backend wrote them. */
const embeddingAnswers: AnswerFormat = {
  bytesMax: answerBytesMax.vectors,
  vectors: {
    createCutter: createVectorCutter,
    encode: (vectors, { payload, budget }) =>
      asksForBase64(payload) ? vectorsAsBase64(vectors) : vectorsAsNumbers(vectors, budget),
  },

  parse(text): EmbeddingAnswer {
    const value = parseBackendJson(text, 'the answer');
    const parsed = answerSchema.safeParse(value);
    if (!parsed.success || parsed.data.error != null)
      throw notAnAnswer(value, 'the answer has no data', { cause: parsed.error });
    return { text, answer: parsed.data, usage: readUsage(parsed.data.usage) };
  },
  writtenIn: () => '',
  cut: (answer) => answer,

  present({ text, answer, usage }: EmbeddingAnswer, { promptTokens }, { model }) {
    const data = mapped(answer.data, (item, index) => withMissing(item, { object: 'embedding', index }));
    const isWhole = data === answer.data && answer.object != null && usage !== undefined && hasTotal(answer.usage);
    if (isWhole) return withModel({ text, answer }, model);
    const tokens = { prompt_tokens: promptTokens, total_tokens: promptTokens };
    return JSON.stringify({
      ...withMissing(answer, { object: 'list' }),
      data,
      model,
      usage: { ...(isObject(answer.usage) && answer.usage), ...tokens },
    });
  },
};

/** Many servers ignore the field. The payload is a JSON object that was accepted, and is parsed only if it may have the field. */
function asksForBase64(payload: string): boolean {
  if (!payload.includes('"encoding_format":"base64"')) return false;
  const asked: unknown = JSON.parse(payload);
  return isObject(asked) && asked.encoding_format === 'base64';
}

function hasTotal(usage: unknown): boolean {
  return isObject(usage) && usage.total_tokens != null;
}

const request: RequestFormat = {
  schema: embeddingRequestSchema,
  fields: {
    published: publishedFields(embeddingRequestSchema.shape),
    // Some model servers take messages with images in place of `input`.
    media: ['messages', 'input'],
    holdTools: ['messages'],
    outputFormat: ['response_format'],
  },
  promptField: 'input',
  limitFields: [],

  ask: askWhole,
  estimatePrompt: (embedding, text) => estimatePrompts(embedding, 'input', text),

  promptOf: (payload) => promptsOf({ ...payload }, 'input'),
};

/** `POST /v1/embeddings`. */
export const embeddings: Endpoint = {
  name: 'embeddings',
  path: '/v1/embeddings',
  request,
  answer: embeddingAnswers,
  headers: noHeaders,
  inBatches: true,
};

/** Converted in one turn of the event loop: 2 ms to base64, 5 ms to numbers. */
const numbersPerTurn = 16_384;
const bytesOfNumber = Float32Array.BYTES_PER_ELEMENT;
/** So many digits tell numbers of 32 bits apart. */
const digits = 9;
const quote = 0x22;

/**
 * Returns vectors in base64 (numbers in 32 bits, little-endian) as lists of numbers. A vector that is a list already, or no such text,
 * stays as it is. What they grow by is spent of the budget.
 */
export async function vectorsAsNumbers(vectors: readonly Vector[], budget: SizeBudget): Promise<readonly Vector[]> {
  let leftInTurn = numbersPerTurn;

  async function listOf(numbers: Buffer): Promise<Buffer[]> {
    const parts: Buffer[] = [];
    for (let at = 0; at < numbers.length; ) {
      const block = numbers.subarray(at, at + leftInTurn * bytesOfNumber);
      const part = Buffer.from(`${at === 0 ? '[' : ','}${textOf(block)}`);
      budget.spend(Math.max(0, part.length - block.length));
      parts.push(part);
      at += block.length;
      leftInTurn -= block.length / bytesOfNumber;
      if (leftInTurn > 0) continue;
      leftInTurn = numbersPerTurn;
      await nextTurn();
    }
    return [...parts, Buffer.from(']')];
  }

  const converted: Vector[] = [];
  for (const vector of vectors) {
    const numbers = numbersIn(vector);
    converted.push(numbers === undefined ? vector : await listOf(numbers));
  }
  return converted;
}

function numbersIn(parts: Vector): Buffer | undefined {
  if (parts[0]?.[0] !== quote) return undefined;
  const text = Buffer.concat(parts)
    .toString('latin1')
    .slice(1, -1)
    .replace(/={1,2}$/, '');
  const numbers = Buffer.from(text, 'base64');
  // What is no base64 is not decoded.
  const isWhole = numbers.length > 0 && numbers.length === Math.floor((text.length * 3) / 4);
  return isWhole && numbers.length % bytesOfNumber === 0 ? numbers : undefined;
}

function textOf(numbers: Buffer): string {
  const texts: string[] = [];
  for (let at = 0; at < numbers.length; at += bytesOfNumber) {
    const number = numbers.readFloatLE(at);
    texts.push(Number.isFinite(number) ? String(Number(number.toPrecision(digits))) : 'null');
  }
  return texts.join(',');
}

const [comma, listOpen, listClose, letterN] = [0x2c, 0x5b, 0x5d, 0x6e];

/**
 * Returns the vectors as texts in base64 of their numbers in 32 bits, little-endian, as OpenAI's clients ask for them. A vector that is a
 * text already, or no plain list of numbers, stays as it is.
 */
export async function vectorsAsBase64(vectors: readonly Vector[]): Promise<Vector[]> {
  const converted: Vector[] = [];
  let leftInTurn = numbersPerTurn;

  async function convert(bytes: Buffer): Promise<Buffer> {
    const numbers = Buffer.alloc(countNumbers(bytes) * bytesOfNumber);
    let from = 1;
    for (let written = 0; written < numbers.length; written += bytesOfNumber) {
      const next = bytes.indexOf(comma, from);
      const end = next === -1 ? bytes.length - 1 : next;
      numbers.writeFloatLE(Number(bytes.toString('latin1', from, end)), written);
      from = end + 1;
      if (--leftInTurn > 0) continue;
      leftInTurn = numbersPerTurn;
      await nextTurn();
    }
    return Buffer.from(`"${numbers.toString('base64')}"`);
  }

  for (const parts of vectors) {
    const bytes = Buffer.concat(parts);
    converted.push([isPlainList(bytes) ? await convert(bytes) : bytes]);
  }
  return converted;
}

function isPlainList(bytes: Buffer): boolean {
  return bytes[0] === listOpen && bytes.indexOf(listClose) === bytes.length - 1 && !bytes.includes(letterN);
}

function countNumbers(bytes: Buffer): number {
  let commas = 0;
  for (let at = bytes.indexOf(comma); at !== -1; at = bytes.indexOf(comma, at + 1)) commas++;
  return commas > 0 || bytes.subarray(1, -1).toString('latin1').trim() !== '' ? commas + 1 : 0;
}
