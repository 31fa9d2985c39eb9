import { z } from 'zod';
import type { Batch, BatchError } from '../../../shared/batches/batch.ts';
import type { FileLine } from '../../../shared/batches/split-lines.ts';
import { oncePerObject } from '../../../shared/concurrency/single-flight.ts';
import {
  type Call,
  type CallableModels,
  type ReadOptions,
  readCall,
} from '../../../shared/endpoints/definition/read-call.ts';
import { endpointAt, endpoints } from '../../../shared/endpoints/endpoints.ts';
import { createListedFields, type ListedFields } from '../../../shared/endpoints/fields/listed-fields.ts';
import { ApiError, validationError, validationIssuesOf } from '../../../shared/errors.ts';
import { mayBeInexact, parseExactly } from '../../../shared/json/exact-json.ts';
import { exceededJsonBound } from '../../../shared/json/json-bounds.ts';
import { isObject } from '../../../shared/json/json-values.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';

/** A line that can run. `customId` is the client's name for it. */
export type ParsedLine = { customId: string; call: Call };

const customIdLengthMax = 512;

const customId = z
  .string()
  .min(1, 'expected at least one character')
  .max(customIdLengthMax, `expected at most ${customIdLengthMax} characters`)
  // Half a surrogate pair would become another character in the results, and the client could not find its line.
  .refine((id) => id.isWellFormed(), 'expected whole characters');

/** By the endpoint of their batch. */
const lineSchemas = new Map<string, ReturnType<typeof lineSchemaOf>>(
  endpoints.filter(({ inBatches }) => inBatches).map(({ path }) => [path, lineSchemaOf(path)]),
);

function lineSchemaOf(path: string) {
  return z.looseObject({
    custom_id: customId,
    method: z.literal('POST', 'expected "POST"'),
    url: z.literal(path, `expected "${path}"`),
  });
}

type LineError = Omit<BatchError, 'line'>;

/** The error of a line whose body cannot run. Its batch runs, and the line ends with this error. */
export type RefusedLine = { customId: string; refused: ApiError };

/** Faults of a line that are faults of its file: its batch fails. */
type FaultyLine = { faults: BatchError[] };

export type ReadLine = { parsed: ParsedLine } | RefusedLine | FaultyLine;

/** The models and fields that lines may use: in general, and in one batch, whose lines are for one endpoint. */
export type LineRules = Pick<ReadOptions, 'models' | 'aliases' | 'affinityOf'> & { listedFields: ListedFields };
export type BatchRules = LineRules & Pick<Batch, 'endpoint'>;

/** The rules of a plan file. */
export const lineRulesOf = oncePerObject(({ models, aliases, mediaHosts }: PlanFile): LineRules => {
  return { models, aliases, listedFields: createListedFields({ models, mediaHosts }) };
});

/**
 * Parses one line of an input file in JSON Lines format (jsonlines.org): UTF-8, one JSON object in each line. A carriage return before the
 * line feed is white space, and the last line needs neither.
 */
export function parseLine({ number, bytes }: Pick<FileLine, 'number' | 'bytes'>, rules: BatchRules): ReadLine {
  const faulty = (errors: readonly LineError[]): FaultyLine => ({
    faults: errors.map((lineError) => ({ ...lineError, line: number })),
  });
  if (bytes === undefined) return faulty([lineError('line_too_long', 'is longer than 4 MiB')]);
  const read = readObject(bytes);
  if ('invalid' in read) return faulty([read.invalid]);
  const line = lineSchemas.get(rules.endpoint)?.safeParse(read.value);
  if (line === undefined) throw new Error(`batches cannot use ${rules.endpoint}`);
  if (!line.success) {
    return faulty(
      validationIssuesOf(line.error).map(({ path, message }) => ({ code: issueCodeOf(path), param: path, message })),
    );
  }
  const { custom_id: customId, body } = line.data;
  try {
    return { parsed: { customId, call: readBody(body, read.text, rules) } };
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'VALIDATION_ERROR') throw error;
    return { customId, refused: error };
  }
}

function readBody(body: unknown, text: string, { endpoint, listedFields: rule, ...rules }: BatchRules): Call {
  if (!isObject(body)) throw validationError([{ path: 'body', message: 'expected an object' }]);
  if (body.stream === true)
    throw validationError([{ path: 'stream', message: 'a line of a batch cannot be streamed' }]);
  const sent = { value: body, text: exactText(text, body) };
  const { dropped: _, ...call } = readCall(endpointAt(endpoint), sent, { ...rules, rule });
  return call;
}

const named = z.looseObject({
  custom_id: customId.catch(''),
  body: z.looseObject({ model: z.string().optional() }).catch({}),
});

/**
 * Reads the name and the model of a line, as far as it has them, also of a line that cannot run any more: the plan file may have changed.
 */
export function readNameAndModel(
  { bytes }: Pick<FileLine, 'bytes'>,
  { models, aliases }: CallableModels,
): { customId: string; model: string | undefined } {
  const read = bytes === undefined ? undefined : readObject(bytes);
  const { custom_id: customId, body } = named.parse(read !== undefined && 'value' in read ? read.value : {});
  const model = body.model === undefined ? undefined : (aliases[body.model] ?? body.model);
  return { customId, model: model !== undefined && models[model] !== undefined ? model : undefined };
}

function lineError(code: string, message: string): LineError {
  return { code, param: null, message: `the line ${message}` };
}

function readObject(bytes: Uint8Array): { value: object; text: string } | { invalid: LineError } {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return { invalid: lineError('invalid_utf8', 'is not UTF-8') };
  }
  const exceeded = exceededJsonBound(bytes);
  if (exceeded !== undefined) return { invalid: { code: 'invalid_request', param: 'body', message: exceeded } };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { invalid: lineError('invalid_json_line', 'is not valid JSON') };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { invalid: lineError('invalid_json_line', 'is not a JSON object') };
  }
  return { value, text };
}

/** Returns text that has the body's numbers as they were written. That is the line itself if parsing loses no digits. */
function exactText(line: string, body: object): string {
  if (!mayBeInexact(line)) return line;
  const { body: exact = body } = parseExactly(line) as { body?: object }; // the schema has seen it
  return JSON.stringify(exact);
}

const codes: Readonly<Record<string, string>> = {
  custom_id: 'invalid_custom_id',
  method: 'invalid_method',
  url: 'invalid_url',
};

function issueCodeOf(path: string): string {
  return codes[path] ?? 'invalid_request';
}
