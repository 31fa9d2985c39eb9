/** The body of `POST /v1/chat/completions`. */
export type ChatRequest = {
  model: string;
  messages: { role: 'system' | 'user' | 'assistant'; content: string }[];
  max_tokens?: number;
  stream: true;
  stream_options: { include_usage: true };
};

export type Draft = {
  model: string;
  messages: ChatRequest['messages'];
  /** As typed; if empty, the limit of the model applies. */
  maxTokens: string;
};

/** The request of a draft, without its empty messages. */
export function requestOf({ model, messages, maxTokens }: Draft): ChatRequest {
  const max = Number(maxTokens);
  return {
    model,
    messages: messages.filter(({ content }) => content.trim() !== ''),
    ...(maxTokens.trim() !== '' && { max_tokens: max }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

export const languages = { curl: 'curl', node: 'Node.js', python: 'Python' } as const;
export type Language = keyof typeof languages;

/** The same request as program code, which reads the key from the environment variable `KEY`. */
export function codeFor(language: Language, request: ChatRequest, baseUrl: string): string {
  return { curl: curlCode, node: nodeCode, python: pythonCode }[language](request, `${baseUrl}/v1`);
}

function curlCode(request: ChatRequest, url: string): string {
  const body = JSON.stringify(request, null, 2).replaceAll("'", "'\\''");
  return `curl -N ${url}/chat/completions \\
  -H "authorization: Bearer $KEY" \\
  -H 'content-type: application/json' \\
  -d '${body}'`;
}

function nodeCode(request: ChatRequest, url: string): string {
  return `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ${JSON.stringify(url)}, apiKey: process.env.KEY });
const stream = await client.chat.completions.create(${JSON.stringify(request, null, 2)});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta.content ?? '');
}`;
}

function pythonCode(request: ChatRequest, url: string): string {
  const { stream: _, stream_options: __, ...rest } = request;
  const given = Object.entries(rest).map(([name, value]) => `    ${name}=${pythonOf(value, 1)},`);
  return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(url)}, api_key=os.environ["KEY"])
stream = client.chat.completions.create(
${given.join('\n')}
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`;
}

/** For strings, numbers, and lists and objects of them, JSON and Python are the same. */
function pythonOf(value: unknown, depth: number): string {
  return JSON.stringify(value, null, 4).replaceAll('\n', `\n${'    '.repeat(depth)}`);
}
