/** What the page has asked for. Numbers are kept as they were typed; an empty one is left to the model server. */
export type Draft = {
  model: string;
  /** For endpoints with a conversation. */
  messages: readonly Message[];
  /** One text: an input, a prompt, or a query. */
  input: string;
  /** For endpoints that compare texts: one a line. */
  documents: string;
  /** If empty, the default of the endpoint. */
  maxTokens: string;
  temperature: string;
  topP: string;
};

export type Message = { role: 'system' | 'user' | 'assistant'; content: string };

export type Tokens = { prompt?: number; completion?: number; total?: number };

/** What came with an event, or with a whole answer. */
export type Step = {
  /** More text of the answer. */
  text?: string;
  tokens?: Tokens;
  finishReason?: string;
  /** Whether the answer is complete. */
  isEnd?: boolean;
  /** The answer broke off. */
  failure?: { code?: string; message?: string };
};

export const languages = { curl: 'curl', node: 'Node.js', python: 'Python' } as const;
export type Language = keyof typeof languages;

/** An endpoint that the page can call. A request is the JSON of its body. */
export interface TriedEndpoint<Request extends object = object> {
  readonly label: string;
  readonly path: `/v1/${string}`;
  /** Its main fields: a conversation, one text, or a query with texts to rank. */
  readonly takes: 'messages' | 'input' | 'documents';
  /** Whether it generates text: it then has an output limit and takes parameters of sampling. */
  readonly isGenerating: boolean;
  /** What stands in for an empty output limit. */
  readonly maxTokensDefault?: number;
  /** The request of a draft, without its empty messages. */
  requestOf(draft: Draft): Request;
  /** Whether the answer comes as events. */
  readonly isStreamed: boolean;
  /** Reads the data of an event, or a whole answer. */
  read(data: string): Step;
  /** Programs that send the request, with the key from the environment variable `KEY`. */
  node(request: Request, baseUrl: string): string;
  python(request: Request, baseUrl: string): string;
}

export function written(messages: readonly Message[]): Message[] {
  return messages.filter(({ content }) => content.trim() !== '');
}

/** The documents of a draft, without its empty lines. */
export function documentsOf({ documents }: Pick<Draft, 'documents'>): string[] {
  return documents
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

/** The output limit of a draft, as a number or not at all. */
export function limitOf({ maxTokens }: Draft): number | undefined {
  return numberIn(maxTokens);
}

/** The parameters of sampling, under the names that all endpoints have for them. */
export function samplingOf({ temperature, topP }: Draft): { temperature?: number; top_p?: number } {
  const [heat, share] = [numberIn(temperature), numberIn(topP)];
  return { ...(heat !== undefined && { temperature: heat }), ...(share !== undefined && { top_p: share }) };
}

function numberIn(text: string): number | undefined {
  return text.trim() === '' ? undefined : Number(text);
}

/** The base address of the API for OpenAI's SDKs: with it, errors have the shape that they read. */
function openAiUrl(baseUrl: string): string {
  return `${baseUrl}/openai/v1`;
}

/** A request as program code, with the key from the environment variable `KEY`. */
export function codeFor(endpoint: TriedEndpoint, language: Language, request: object, baseUrl: string): string {
  return language === 'curl' ? curlCode(`${baseUrl}${endpoint.path}`, request) : endpoint[language](request, baseUrl);
}

function curlCode(url: string, request: object): string {
  const body = JSON.stringify(request, null, 2).replaceAll("'", "'\\''");
  return `curl -N ${url} \\
  -H "authorization: Bearer $KEY" \\
  -H 'content-type: application/json' \\
  -d '${body}'`;
}

/** A program with OpenAI's SDK for Node, with these lines after the client. */
export function openAiNode(baseUrl: string, lines: string): string {
  return `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ${JSON.stringify(openAiUrl(baseUrl))}, apiKey: process.env.KEY });
${lines}`;
}

/** The same in Python. */
export function openAiPython(baseUrl: string, lines: string): string {
  return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(openAiUrl(baseUrl))}, api_key=os.environ["KEY"])
${lines}`;
}

/** The fields of a request as arguments of a call in Python. */
export function pythonArguments(request: object): string {
  return Object.entries(request)
    .map(([name, value]) => `    ${name}=${pythonOf(value)},`)
    .join('\n');
}

/** A JSON value without null as Python. Strings and numbers are the same in both. */
export function pythonOf(value: unknown, indent = '    '): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const inner = `${indent}    `;
  const isList = Array.isArray(value);
  const items = isList
    ? value.map((item) => pythonOf(item, inner))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonOf(item, inner)}`);
  const lines = items.map((item) => `${inner}${item},\n`).join('');
  return isList ? `[\n${lines}${indent}]` : `{\n${lines}${indent}}`;
}
