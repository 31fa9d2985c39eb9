/** How a request ended, in words that all endpoints share. */
export type EngineAnswer = {
  /** Whether the client must take it for a finished answer. */
  isComplete: boolean;
  /** Why it is not complete: the status or the error in the stream. */
  error?: string;
  status: number;
  text: string;
  /** Undefined if no usage came. */
  tokens?: number;
  /** Whether it says that it ended at its limit. */
  isAtLimit: boolean;
};

export type Form = 'chat' | 'completions' | 'responses' | 'messages';
export const forms: readonly Form[] = ['chat', 'completions', 'responses', 'messages'];

const messages = [{ role: 'user', content: 'Hello' }];
const usage = { stream_options: { include_usage: true } };
const requests: Record<Form, (limit: number, stream: boolean) => { path: string; body: object }> = {
  chat: (limit, stream) => ({
    path: '/v1/chat/completions',
    body: { messages, max_tokens: limit, stream, ...(stream && usage) },
  }),
  completions: (limit, stream) => ({
    path: '/v1/completions',
    body: { prompt: 'Hello', max_tokens: limit, stream, ...(stream && usage) },
  }),
  responses: (limit, stream) => ({ path: '/v1/responses', body: { input: 'Hello', max_output_tokens: limit, stream } }),
  messages: (limit, stream) => ({ path: '/v1/messages', body: { messages, max_tokens: limit, stream } }),
};

type Service = { url: string; key: string };
type Wishes = { form: Form; stream: boolean; model: string; limit: number; signal?: AbortSignal };

/** Sends a request and reads the answer as a client without an SDK. Rejects only if the service cannot be reached. */
export async function ask(
  { url, key }: Service,
  { form, stream, model, limit, signal }: Wishes,
): Promise<EngineAnswer> {
  const { path, body } = requests[form](limit, stream);
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, ...body }),
    ...(signal && { signal }),
  });
  const { status } = response;
  let read = '';
  let broke: string | undefined;
  try {
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) read += text;
  } catch (error) {
    broke = error instanceof Error ? error.message : String(error);
  }
  if (status !== 200) return { status, isComplete: false, error: `${status} ${read}`, text: '', isAtLimit: false };
  const ending = stream ? ofEvents(form, read) : ofWhole(form, read);
  return { status, ...ending, ...(broke !== undefined && { error: broke }) };
}

type Read = Omit<EngineAnswer, 'status'>;
/** The parts that these tests read, of all endpoints. */
type Part = {
  type?: string;
  error?: object;
  choices?: { text?: string; message?: { content?: string }; delta?: { content?: string }; finish_reason?: string }[];
  usage?: Usage;
  content?: { text?: string }[];
  stop_reason?: string;
  delta?: string | { text?: string; stop_reason?: string };
  response?: Part;
  output?: { content?: { text?: string }[] }[];
};
type Usage = { completion_tokens?: number; output_tokens?: number };

const tokensOf = (usage: Usage | undefined) => usage?.completion_tokens ?? usage?.output_tokens;

function ofWhole(form: Form, text: string): Read {
  let whole: Part;
  try {
    whole = JSON.parse(text);
  } catch {
    return { isComplete: false, error: `no JSON: ${text.slice(-200)}`, text, isAtLimit: false };
  }
  return { isComplete: true, ...contentOf(form, whole) };
}

function contentOf(form: Form, whole: Part): Omit<Read, 'isComplete'> {
  const tokens = tokensOf(whole.usage);
  const blocks = form === 'responses' ? whole.output?.flatMap(({ content = [] }) => content) : whole.content;
  const [choice] = whole.choices ?? [];
  return {
    text: choice?.text ?? choice?.message?.content ?? (blocks ?? []).map(({ text = '' }) => text).join(''),
    ...(tokens !== undefined && { tokens }),
    isAtLimit: choice?.finish_reason === 'length' || whole.stop_reason === 'max_tokens',
  };
}

/** What says that a stream is complete. */
const lastEvents: Record<Form, (event: Part | '[DONE]') => boolean> = {
  chat: (event) => event === '[DONE]',
  completions: (event) => event === '[DONE]',
  responses: (event) => event !== '[DONE]' && /^response\.(completed|incomplete)$/.test(event.type ?? ''),
  messages: (event) => event !== '[DONE]' && event.type === 'message_stop',
};

function ofEvents(form: Form, read: string): Read {
  const events = [...read.matchAll(/^data: (.*)$/gm)].map(([, data = '']): Part | '[DONE]' =>
    data === '[DONE]' ? data : JSON.parse(data),
  );
  const parts = events.filter((event) => event !== '[DONE]');
  const failed = parts.find(({ type, error }) => error || type === 'error' || type === 'response.failed');
  const usages = parts
    .map(({ usage, response }) => tokensOf(usage ?? response?.usage))
    .filter((one) => one !== undefined);
  const tokens = usages.at(-1);
  return {
    isComplete: events.some(lastEvents[form]),
    ...(failed && { error: JSON.stringify(failed) }),
    text: parts.map(textOf).join(''),
    ...(tokens !== undefined && { tokens }),
    isAtLimit: parts.some(
      ({ choices, delta }) =>
        choices?.[0]?.finish_reason === 'length' || (typeof delta === 'object' && delta.stop_reason === 'max_tokens'),
    ),
  };
}

function textOf({ type, choices, delta }: Part): string {
  if (choices !== undefined) return choices[0]?.text ?? choices[0]?.delta?.content ?? '';
  if (type !== 'response.output_text.delta' && type !== 'content_block_delta') return '';
  return (typeof delta === 'string' ? delta : delta?.text) ?? '';
}

/**
 * Whether an answer of the model that ends only at its limit is what it says: a complete one has reached the limit, and each token is at
 * least one character of its text; any other says that it is none.
 */
export function isHonest({ isComplete, error, text, tokens }: EngineAnswer, limit: number): boolean {
  if (!isComplete) return error !== undefined;
  return error === undefined && tokens === limit && text.length >= limit;
}
