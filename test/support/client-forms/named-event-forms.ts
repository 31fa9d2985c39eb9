import { z } from 'zod';
import { type ClientForm, eventsIn, type StreamRead, type Tokens } from './client-form.ts';

const event = z.looseObject({ type: z.string(), delta: z.unknown().optional() });

type NamedEvent = z.infer<typeof event>;

/** The events of a stream, each named as its type says. */
function namedEventsIn(stream: string): NamedEvent[] | undefined {
  const events = eventsIn(stream);
  const parsed = z.array(event).safeParse(events?.map(({ data }) => data)).data;
  return parsed?.every(({ type }, index) => type === events?.[index]?.name) ? parsed : undefined;
}

type Format = {
  textOf: (event: NamedEvent) => string;
  codeOf: (event: NamedEvent) => string | undefined;
  isLast: (event: NamedEvent) => boolean;
  usageIn: (events: readonly NamedEvent[]) => Tokens | undefined;
};

function readers({ textOf, codeOf, isLast, usageIn }: Format): Pick<ClientForm, 'readStream' | 'textIn'> {
  const textOfAll = (events: readonly NamedEvent[]) => events.map(textOf).join('');
  return {
    readStream(stream): StreamRead | undefined {
      const events = namedEventsIn(stream);
      const last = events?.at(-1);
      if (events === undefined || last === undefined) return undefined;
      const code = last.type === 'error' ? codeOf(last) : undefined;
      const ends = events.filter((one) => isLast(one) || one.type === 'error').length;
      if (ends !== 1) return undefined;
      const text = textOfAll(events);
      if (code !== undefined) return { ending: 'interrupted', code, text };
      return isLast(last) ? { ending: 'answered', usage: usageIn(events), text } : undefined;
    },
    textIn: (stream) => textOfAll(namedEventsIn(stream.slice(0, stream.lastIndexOf('\n\n') + 2)) ?? []),
  };
}

const tokens = z
  .looseObject({ input_tokens: z.int(), output_tokens: z.int() })
  .transform((usage): Tokens => ({ promptTokens: usage.input_tokens, completionTokens: usage.output_tokens }));

const responseAnswer = z.object({
  status: z.enum(['completed', 'incomplete']),
  output: z.tuple([z.object({ content: z.tuple([z.object({ text: z.string() })]) })]),
  usage: tokens,
});
const responseEnd = z.looseObject({ response: z.looseObject({ usage: tokens }) });
const responseBody = z.looseObject({ input: z.string() });

export const responseForm: ClientForm = {
  ...{ path: '/v1/responses', hasStreams: true, hasText: true },
  bodyOf: ({ model, question, stream, tokensMax }) => ({
    ...{ model, stream, input: question, max_output_tokens: tokensMax },
  }),
  questionOf: (body) => responseBody.safeParse(body).data?.input,
  readWhole(body) {
    const { data } = responseAnswer.safeParse(body);
    return data && { usage: data.usage, text: data.output[0].content[0].text };
  },
  ...readers({
    textOf: ({ type, delta }) => (type === 'response.output_text.delta' ? String(delta) : ''),
    codeOf: ({ code }) => String(code),
    isLast: ({ type }) => type === 'response.completed' || type === 'response.incomplete',
    usageIn: (events) => responseEnd.safeParse(events.at(-1)).data?.response.usage,
  }),
};

const message = z.object({
  type: z.literal('message'),
  content: z.tuple([z.object({ text: z.string() })]),
  stop_reason: z.string(),
  usage: tokens,
});
const messageBody = z.looseObject({ messages: z.tuple([z.looseObject({ content: z.string() })]) });
const textDelta = z.looseObject({ text: z.string() });
const messageError = z.looseObject({ error: z.looseObject({ code: z.string() }) });
const messageStart = z.looseObject({ message: z.looseObject({ usage: z.looseObject({ input_tokens: z.int() }) }) });
const messageDelta = z.looseObject({
  usage: z.looseObject({ input_tokens: z.int().optional(), output_tokens: z.int() }),
});

function usageOfMessage(events: readonly NamedEvent[]): Tokens | undefined {
  const start = messageStart.safeParse(events.find(({ type }) => type === 'message_start')).data?.message.usage;
  const end = messageDelta.safeParse(events.find(({ type }) => type === 'message_delta')).data?.usage;
  if (end === undefined) return undefined;
  return { promptTokens: end.input_tokens ?? start?.input_tokens ?? 0, completionTokens: end.output_tokens };
}

export const messageForm: ClientForm = {
  ...{ path: '/v1/messages', hasStreams: true, hasText: true },
  bodyOf: ({ model, question, stream, tokensMax }) => ({
    ...{ model, stream, max_tokens: tokensMax, messages: [{ role: 'user', content: question }] },
  }),
  questionOf: (body) => messageBody.safeParse(body).data?.messages[0].content,
  readWhole(body) {
    const { data } = message.safeParse(body);
    return data && { usage: data.usage, text: data.content[0].text };
  },
  ...readers({
    textOf: ({ type, delta }) => (type === 'content_block_delta' ? (textDelta.safeParse(delta).data?.text ?? '') : ''),
    codeOf: (error) => messageError.safeParse(error).data?.error.code,
    isLast: ({ type }) => type === 'message_stop',
    usageIn: usageOfMessage,
  }),
};
