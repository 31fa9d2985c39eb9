import { z } from 'zod';
import { type ClientForm, eventsIn, type Question, type Tokens } from './client-form.ts';

const usageSchema = z
  .object({ prompt_tokens: z.int(), completion_tokens: z.int() })
  .transform((usage): Tokens => ({ promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens }));
const eventSchema = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        delta: z.looseObject({ content: z.string().nullish() }).optional(),
        text: z.string().optional(),
      }),
    )
    .optional(),
  usage: usageSchema.nullish(),
  error: z.object({ code: z.string() }).optional(),
});

type StreamEvent = z.infer<typeof eventSchema>;

const chatAnswer = z.object({
  choices: z.tuple([z.object({ message: z.object({ content: z.string() }) })]),
  usage: usageSchema,
});
const completionAnswer = z.object({ choices: z.tuple([z.object({ text: z.string() })]), usage: usageSchema });
const chatBody = z.object({ messages: z.tuple([z.object({ content: z.string() })]) });
const completionBody = z.object({ prompt: z.string() });

const streamFields = ({ stream, includeUsage }: Question) => ({
  stream,
  ...(includeUsage && { stream_options: { include_usage: true } }),
});

export const chatForm: ClientForm = {
  ...{ path: '/v1/chat/completions', hasStreams: true, hasText: true, readStream, textIn },
  bodyOf: (asked) => ({
    ...{ model: asked.model, ...streamFields(asked), max_tokens: asked.tokensMax },
    messages: [{ role: 'user', content: asked.question }],
  }),
  questionOf: (body) => chatBody.safeParse(body).data?.messages[0].content,
  readWhole(body) {
    const { data } = chatAnswer.safeParse(body);
    return data && { usage: data.usage, text: data.choices[0].message.content };
  },
};

export const completionForm: ClientForm = {
  ...{ path: '/v1/completions', hasStreams: true, hasText: true, readStream, textIn },
  bodyOf: (asked) => ({
    ...{ model: asked.model, ...streamFields(asked), max_tokens: asked.tokensMax, prompt: asked.question },
  }),
  questionOf: (body) => completionBody.safeParse(body).data?.prompt,
  readWhole(body) {
    const { data } = completionAnswer.safeParse(body);
    return data && { usage: data.usage, text: data.choices[0].text };
  },
};

const done = 'data: [DONE]\n\n';

function readStream(stream: string): ReturnType<ClientForm['readStream']> {
  const isDone = stream.endsWith(done);
  const events = chunksIn(isDone ? stream.slice(0, -done.length) : stream);
  if (events === undefined) return undefined;
  const error = events.at(-1)?.error;
  const text = textOf(events);
  if (error !== undefined && !isDone) return { ending: 'interrupted', code: error.code, text };
  if (!isDone || events.some((event) => event.error !== undefined)) return undefined;
  return { ending: 'answered', usage: events.find(({ usage }) => usage)?.usage ?? undefined, text };
}

function textIn(stream: string): string {
  return textOf(chunksIn(stream.slice(0, stream.lastIndexOf('\n\n') + 2)) ?? []);
}

function chunksIn(stream: string): StreamEvent[] | undefined {
  return z.array(eventSchema).safeParse(eventsIn(stream)?.map(({ data }) => data)).data;
}

function textOf(events: readonly StreamEvent[]): string {
  return events.map(({ choices }) => choices?.[0]?.delta?.content ?? choices?.[0]?.text ?? '').join('');
}
