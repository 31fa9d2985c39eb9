import type { z } from 'zod';
import type { FieldFormat } from '../fields/listed-fields.ts';
import type { AnswerFormat, ErrorFormat } from './answer-format.ts';

/**
 * An endpoint for inference: all that differs from one endpoint to the next (contract.md#g1-endpoints). Routes, admission, queue, dispatch
 * and settlement are the same for all, and know no endpoint by name.
 */
export interface Endpoint {
  /** The name in `endpoints` of a model in the plan file. Endpoints that are offered together have the same. */
  readonly name: string;
  /** The route. Usage records and metrics name the endpoint by it, and backends serve the same path, without `/v1`. */
  readonly path: `/v1/${string}`;
  /** Other paths at which clients call it. */
  readonly otherPaths?: readonly string[];
  readonly request: RequestFormat;
  readonly answer: AnswerFormat;
  /** Undefined for the errors that all other routes have. */
  readonly errors?: ErrorFormat;
  readonly headers: EndpointHeaders;
  /** Whether lines of batches may use it. */
  readonly inBatches: boolean;
}

/** Headers by their names in lower case. */
export type EndpointHeaders = {
  /** Another header of the response that names the request. */
  readonly requestId?: string;
  /** Headers of the client that backends get, unchanged unless there is a function here that reads them. */
  readonly passedOn: readonly string[];
  readonly read?: Readonly<Record<string, ReadHeader>>;
};

/**
 * Returns what backends get of a header's value, empty if nothing, and what they do not get, by names for the client. Fails with
 * `VALIDATION_ERROR`. `isListed` says what the model's `extra_fields` allows.
 */
export type ReadHeader = (
  value: string,
  isListed: (name: string) => boolean,
) => { kept: string; dropped: readonly string[] };

export const noHeaders: EndpointHeaders = { passedOn: [] };

/** What a valid request asks for. */
export type RequestSummary = {
  model: string;
  stream: boolean;
  /** Whether the stream ends with the usage. */
  includeUsage: boolean;
  /** Whether a whole answer may be requested as a stream, and assembled. */
  assembled: boolean;
  /** The number of choices in the answer. */
  choices: number;
  /** Fields of the payload that replace the client's. Undefined removes a field. */
  fields: Readonly<Record<string, unknown>>;
  /** What fields of the payload are made of the client's. */
  changes?: Readonly<Record<string, (sent: unknown) => unknown>>;
};

/** What a request asks for whose answer the model does not generate. */
export function askWhole({ model }: { model: string }): RequestSummary {
  return { model, stream: false, includeUsage: false, assembled: false, choices: 1, fields: {} };
}

/** The texts of a prompt, and tokens that they do not show: of token ids, and around messages. */
export type Prompt = { texts: string[]; tokens: number };

/**
 * The prompt of a request in the order in which a model reads it. `head`: tools and system, before all messages. `messages`: messages or
 * items of a chat, or one text, which may continue that of an earlier request.
 */
export type PromptParts = { head: readonly unknown[]; messages: readonly unknown[] | string };

/**
 * What a request has in common with others that should go to the same backend. `keys`: the deepest last. `isFirstTurn`: no model has
 * answered in its prompt, so no backend has a turn of its chat.
 */
export type Affinity = { keys: string[]; isFirstTurn: boolean };

/** How a request of one endpoint is read. The methods get requests that the schema has accepted. */
export interface RequestFormat {
  /** All fields of the endpoint's published description, as far as the service checks them. */
  readonly schema: z.ZodType<object>;
  /** Which fields, tools and addresses may reach a backend. */
  readonly fields: FieldFormat;
  /** Whether neither the schema nor the lists can find an issue. If false, the request may be valid or not. */
  isPlain?(value: object): boolean;
  ask(request: object): RequestSummary;
  /** Whether nothing is charged, however the request ends. */
  readonly isFree?: boolean;
  /** Estimates the tokens of the prompt of any object, also one that the schema would refuse. `text` is the object as JSON. */
  estimatePrompt(request: object, text: string): number;
  /** The field with the prompt. */
  readonly promptField: string;
  /**
   * The names of the output limit: the service removes them from the client's request, and sends its own limit under them. The first counts
   * if the request does not set one. None if nothing is generated.
   */
  readonly limitFields: readonly string[];
  /** The prompt of a payload, for the tokenizer. */
  promptOf(payload: object): Prompt;
  /** The parts of the prompt, if the model generates text from it. */
  partsOf?(request: object): PromptParts;
  /** How often the answer repeats the prompt, which then does not count as output. `payload` is a payload as text. */
  repeatsOfPrompt?(payload: string): number;
  /** How many prompts a payload has, each with choices of its own. Undefined for one. */
  promptsIn?(payload: object): number;
  /** The number of choices that tokens were reserved for, in a payload. Undefined for one. */
  choicesOf?(payload: object): number;
}
