import type { Step } from './tried-endpoint.ts';

type Chunk<Choice> = {
  choices?: (Choice & { finish_reason?: string | null })[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number } | null;
  error?: { code?: string; message?: string };
};

/** Reads one frame of a stream of `/v1/chat/completions` or `/v1/completions`, whose choices differ in where their text is. */
export function readChunk<Choice>(data: string, textOf: (choice: Choice) => string | null | undefined): Step {
  if (data === '[DONE]') return { isEnd: true };
  const { choices: [choice] = [], usage, error } = JSON.parse(data) as Chunk<Choice>; // the service's own frame
  if (error !== undefined) return { failure: error };
  return {
    text: (choice && textOf(choice)) ?? '',
    ...(choice?.finish_reason && { finishReason: choice.finish_reason }),
    ...(usage && {
      tokens: { prompt: usage.prompt_tokens, completion: usage.completion_tokens, total: usage.total_tokens },
    }),
  };
}
