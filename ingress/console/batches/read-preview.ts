/** A fault of a line, whose number is from 1. With a fault of its form the service refuses the file, otherwise only the line. */
export type LineFault = { line: number; message: string; isOfForm: boolean };

/**
 * A model with the first line that names it. Its tokens are estimated for the whole file, those of its answers from the limits of its
 * lines.
 */
export type PreviewModel = {
  name: string;
  line: number;
  lines: number;
  tokens: number;
  answerTokensMax: number | undefined;
};

/**
 * What a file of a batch holds. Lines are counted in the whole file, except those of white space; `models`, `endpoint` and `faults` are of
 * its first lines (`examined`). `endpoint` is that of the first line that names one. `tokens` are those of all prompts, estimated from the
 * texts of the first lines, and from the length of the others.
 */
export type Preview = {
  lines: number;
  examined: number;
  models: PreviewModel[];
  endpoint: string | undefined;
  tokens: number;
  faults: LineFault[];
};

const examinedMax = 1_000;
export const faultsMax = 10;
const idLengthMax = 512;
/** A line without an end is not collected beyond this. */
const lineCharactersMax = 4_194_304;
const charactersPerToken = 4;

/** Reads the whole file in pieces. Fails if it cannot be read, or at once with the reason of its signal. */
export async function readPreview(file: Blob, signal: AbortSignal): Promise<Preview> {
  const examine = createExaminer();
  const decoder = new TextDecoderStream('utf-8');
  const reader = file.stream().pipeThrough(decoder, { signal }).getReader();
  let rest = '';
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const pieces = (rest + read.value).split('\n');
      rest = (pieces.pop() ?? '').slice(0, lineCharactersMax);
      for (const line of pieces) examine.add(line);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
  if (rest !== '') examine.add(rest); // the last line needs no end
  return examine.preview();
}

/** Collects what is known of the lines that were added so far. */
function createExaminer() {
  const ids = new Set<string>();
  const models = new Map<string, PreviewModel>();
  const faults: LineFault[] = [];
  let [number, lines, characters] = [0, 0, 0];
  let [examined, examinedCharacters, examinedTokens] = [0, 0, 0];
  let endpoint: string | undefined;

  function examine(text: string): void {
    examined += 1;
    examinedCharacters += text.length;
    const facts = factsOf(text);
    const { model, url, id, tokens = 0 } = facts;
    const ofForm = facts.fault ?? faultAmong(facts);
    const message = ofForm ?? facts.bodyFault;
    examinedTokens += tokens;
    if (id !== undefined) ids.add(id);
    if (model !== undefined) models.set(model, withLine(models.get(model), { number, model, facts }));
    endpoint ??= url;
    if (message !== undefined && faults.length < faultsMax)
      faults.push({ line: number, message, isOfForm: ofForm !== undefined });
  }

  /** What is wrong with a line only because of the lines before it. */
  function faultAmong({ url, id }: Facts): string | undefined {
    if (url !== undefined && endpoint !== undefined && url !== endpoint)
      return `url: expected "${endpoint}", as in the first line`;
    return id !== undefined && ids.has(id) ? `the custom_id "${id.slice(0, 40)}" is used before` : undefined;
  }

  return {
    add(text: string): void {
      number += 1;
      if (text.trim() === '') return;
      lines += 1;
      characters += text.length;
      if (examined < examinedMax) examine(text);
    },
    preview(): Preview {
      const tokensPerCharacter = examinedTokens / Math.max(1, examinedCharacters);
      const tokens = Math.round(examinedTokens + (characters - examinedCharacters) * tokensPerCharacter);
      const scale = lines / Math.max(1, examined);
      return {
        lines,
        examined,
        models: [...models.values()].map((model) => scaled(model, scale)),
        endpoint,
        tokens,
        faults,
      };
    },
  };
}

type NumberedLine = { number: number; model: string; facts: Facts };

/** One line without a limit leaves the tokens of all answers open. */
function withLine(before: PreviewModel | undefined, { number, model, facts }: NumberedLine): PreviewModel {
  const { line, lines, tokens, answerTokensMax } = before ?? { line: number, lines: 0, tokens: 0, answerTokensMax: 0 };
  const { tokens: more = 0, answerTokensMax: limit } = facts;
  const answers = answerTokensMax === undefined || limit === undefined ? undefined : answerTokensMax + limit;
  return { name: model, line, lines: lines + 1, tokens: tokens + more, answerTokensMax: answers };
}

/** The lines that were not examined are like those that were. */
function scaled({ name, line, lines, tokens, answerTokensMax: answers }: PreviewModel, scale: number): PreviewModel {
  return {
    name,
    line,
    lines,
    tokens: Math.round(tokens * scale),
    answerTokensMax: answers === undefined ? undefined : Math.round(answers * scale),
  };
}

type Facts = {
  fault?: string;
  bodyFault?: string;
  model?: string;
  url?: string;
  id?: string;
  tokens?: number;
  answerTokensMax?: number;
};

function factsOf(text: string): Facts {
  const line = parsed(text);
  if (line === undefined) return { fault: 'this is not a JSON object' };
  const { custom_id: id, method, url, body } = line;
  const model = isObject(body) && typeof body.model === 'string' ? body.model : undefined;
  const facts = {
    ...(model !== undefined && { model }),
    ...(typeof url === 'string' && { url }),
    ...(typeof id === 'string' && { id }),
    tokens: tokensOf(body),
    ...answerLimitIn(url, body),
  };
  const fault = [
    [
      typeof id === 'string' && id !== '' && id.length <= idLengthMax,
      `custom_id: expected 1 to ${idLengthMax} characters`,
    ],
    [method === 'POST', 'method: expected "POST"'],
    [typeof url === 'string', 'url: expected the path of an endpoint'],
  ] as const;
  const message = fault.find(([isRight]) => !isRight)?.[1];
  const bodyFault = isObject(body) ? 'body.model: expected the name of a model' : 'body: expected an object';
  return { ...facts, ...(message !== undefined && { fault: message }), ...(model === undefined && { bodyFault }) };
}

/** Endpoints whose answers have no tokens. */
const withoutAnswers = /\/(embeddings|rerank)$/;

/** The most tokens of an answer, if the line says so. */
function answerLimitIn(url: unknown, body: unknown): { answerTokensMax?: number } {
  if (typeof url === 'string' && withoutAnswers.test(url)) return { answerTokensMax: 0 };
  if (!isObject(body)) return {};
  const limit = body.max_completion_tokens ?? body.max_output_tokens ?? body.max_tokens;
  const answers = typeof body.n === 'number' ? body.n : 1;
  return typeof limit === 'number' ? { answerTokensMax: limit * answers } : {};
}

/** Members of a body that hold its prompt, in every endpoint of a batch. */
const textFields = new Set(['content', 'text', 'input', 'prompt', 'instructions', 'arguments', 'output']);
const firstWide = 0x2e80;

/** The tokens of the texts of a prompt, about: a token has four characters, or one of Chinese, Japanese or Korean. */
function tokensOf(value: unknown, isText = false): number {
  if (typeof value === 'string') return isText && !value.startsWith('data:') ? tokensInText(value) : 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + tokensOf(item, isText), 0);
  if (typeof value === 'number') return isText ? 1 : 0; // a token id
  if (!isObject(value)) return 0;
  return Object.entries(value).reduce((sum, [name, member]) => sum + tokensOf(member, textFields.has(name)), 0);
}

function tokensInText(text: string): number {
  let wide = 0;
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) >= firstWide) wide++;
  return wide + (text.length - wide) / charactersPerToken;
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
