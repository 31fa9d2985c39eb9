/** A fault of a line that the service would refuse; `line` is from 1. */
export type LineFault = { line: number; message: string };

/**
 * What a file of a batch holds. Lines are counted in the whole file; `models`, `endpoint` and `faults` are of its first lines
 * (`examined`). `endpoint` is that of the first line that names one. `tokens` are those of all prompts, estimated from the length of the
 * lines.
 */
export type Preview = {
  lines: number;
  examined: number;
  models: string[];
  endpoint: string | undefined;
  tokens: number;
  faults: LineFault[];
};

const examinedMax = 1_000;
const faultsMax = 10;
const idLengthMax = 512;
/** A line without an end is not collected beyond this. */
const lineCharactersMax = 4_194_304;
const charactersPerToken = 4;

/**
 * Reads the whole file in pieces. Fails if it cannot be read, or at once with the reason of its signal. A byte order mark is kept, because
 * the service refuses it.
 */
export async function readPreview(file: Blob, signal: AbortSignal): Promise<Preview> {
  const examine = createExaminer();
  const decoder = new TextDecoderStream('utf-8', { ignoreBOM: true });
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
export function createExaminer() {
  const [ids, models] = [new Set<string>(), new Set<string>()];
  const faults: LineFault[] = [];
  let [lines, examined, characters] = [0, 0, 0];
  let endpoint: string | undefined;

  function examine(text: string): void {
    examined += 1;
    const facts = factsOf(text);
    const { model, url, id } = facts;
    const message = facts.fault ?? faultAmong(facts);
    if (id !== undefined) ids.add(id);
    if (model !== undefined) models.add(model);
    endpoint ??= url;
    if (message !== undefined && faults.length < faultsMax) faults.push({ line: lines, message });
  }

  /** What is wrong with a line only because of the lines before it. */
  function faultAmong({ url, id }: Facts): string | undefined {
    if (url !== undefined && endpoint !== undefined && url !== endpoint)
      return `url: expected "${endpoint}", as in the first line`;
    return id !== undefined && ids.has(id) ? `the custom_id "${id.slice(0, 40)}" is used before` : undefined;
  }

  return {
    add(text: string): void {
      lines += 1;
      characters += text.length;
      if (examined < examinedMax) examine(text);
    },
    preview(): Preview {
      const tokens = Math.round(characters / charactersPerToken);
      return { lines, examined, models: [...models], endpoint, tokens, faults };
    },
  };
}

type Facts = { fault?: string; model?: string; url?: string; id?: string };

const byteOrderMark = '\ufeff';

function factsOf(text: string): Facts {
  if (text.startsWith(byteOrderMark)) return { fault: 'the file begins with a byte order mark' };
  if (text.trim() === '') return { fault: 'the line is empty' };
  const line = parsed(text);
  if (line === undefined) return { fault: 'this is not a JSON object' };
  const { custom_id: id, method, url, body } = line;
  const model = isObject(body) && typeof body.model === 'string' ? body.model : undefined;
  const facts = {
    ...(model !== undefined && { model }),
    ...(typeof url === 'string' && { url }),
    ...(typeof id === 'string' && { id }),
  };
  const fault = [
    [
      typeof id === 'string' && id !== '' && id.length <= idLengthMax,
      `custom_id: expected 1 to ${idLengthMax} characters`,
    ],
    [method === 'POST', 'method: expected "POST"'],
    [typeof url === 'string', 'url: expected the path of an endpoint'],
    [isObject(body), 'body: expected an object'],
    [model !== undefined, 'body.model: expected the name of a model'],
  ] as const;
  const message = fault.find(([isRight]) => !isRight)?.[1];
  return { ...facts, ...(message !== undefined && { fault: message }) };
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
