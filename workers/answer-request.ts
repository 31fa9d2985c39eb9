import { z } from 'zod';
import { ApiError } from '../shared/errors.ts';
import type { QueuedCall } from '../shared/inference-job.ts';
import type { Usage } from '../shared/replies.ts';
import { createAnswerAssembler } from './backends/assemble-answer.ts';
import { BackendError } from './backends/backend-error.ts';
import { isAssembled } from './backends/body-for.ts';
import type { BackendCall, CallBackend } from './backends/call-backend.ts';
import { answerText, type BackendAnswer, parseAnswer, presentAnswer } from './backends/convert-answer.ts';
import { type ChunkConverter, createChunkConverter } from './backends/convert-chunks.ts';
import { countPromptTokens, countTokens } from './backends/count-tokens.ts';
import type { ReplySender } from './replies/send-reply.ts';

type Answering = {
  job: QueuedCall;
  call: BackendCall;
  callBackend: CallBackend;
  reply: Pick<ReplySender, 'chunk'>;
  /**
   * The first token has come. With `received`, what was used up to the time of asking, the client has it as well: from here
   * on no other backend can take over.
   */
  onFirstToken: (received?: () => Promise<Usage>) => void;
};

/** What the request's last word has to say, all the rest having been sent. */
export type Answer = { body?: string; usage: Usage };

/** Gets the answer from one backend, whole. Fails with `BackendError`, and nothing was sent. */
export async function answerWhole(answering: Answering): Promise<Answer> {
  const { job, call, callBackend } = answering;
  const answer = isAssembled(job, call.backend)
    ? await assemble(answering)
    : parseAnswer(await callBackend.whole(call));
  const usage = await usageOf(job, answer.usage, () => {
    const sample = answerText(answer);
    return { sample, characters: sample.length };
  });
  return { body: presentAnswer(answer, job.model, usage), usage };
}

async function assemble({ job, call, callBackend, onFirstToken }: Answering): Promise<BackendAnswer> {
  const assembler = createAnswerAssembler({ model: job.model, apiKey: call.apiKey });
  let whole: string | undefined;
  const events = callBackend.stream(call, assembler.begun, (text) => {
    whole = text;
  });
  await readEvents(events, {
    take(data) {
      const before = assembler.begun();
      assembler.take(data);
      if (!before && assembler.begun()) onFirstToken();
    },
    complete: () => whole !== undefined || assembler.complete(() => choicesAsked(job)),
  });
  return whole === undefined ? assembler.answer() : parseAnswer(whole);
}

/**
 * Passes the answer of one backend on as it comes. Fails with `BackendError`: before `onFirstToken` nothing was sent, after
 * it the client has a part of the answer, and needs to be told that there is no more.
 */
export async function answerStream({ job, call, callBackend, reply, onFirstToken }: Answering): Promise<Answer> {
  const converter = createChunkConverter({ model: job.model, apiKey: call.apiKey });
  const received = () => usageOf(job, converter.usage(), converter.text);
  await readEvents(callBackend.stream(call, converter.begun), {
    take(data) {
      const before = converter.begun();
      const ready = converter.take(data);
      if (!before && converter.begun()) onFirstToken(received);
      return ready === '' ? undefined : reply.chunk(ready, converter.tokensWritten());
    },
    complete: () => converter.complete(() => choicesAsked(job)),
  });
  const usage = await received();
  if (job.includeUsage) await reply.chunk(converter.usageChunk(usage), converter.tokensWritten());
  return { usage };
}

type EventReader = { take(data: string): Promise<void> | undefined | void; complete(): boolean };

async function readEvents(events: AsyncIterable<readonly string[]>, reader: EventReader): Promise<void> {
  try {
    for await (const some of events) if (await takeAll(some, reader)) break;
  } catch (error) {
    // An answer that is complete stays so, however its connection ends.
    if (!(error instanceof BackendError && reader.complete())) throw error;
  }
  if (!reader.complete()) throw new BackendError('interrupted', 'the stream ended without saying that it was complete');
}

/** True once the backend has said that there is no more. */
async function takeAll(events: readonly string[], { take }: EventReader): Promise<boolean> {
  for (const data of events) {
    const taken = take(data);
    // Most events have nothing to wait for, and waiting costs a turn.
    if (taken !== undefined) await taken;
    if (data === '[DONE]') return true;
  }
  return false;
}

const choicesSchema = z.object({ n: z.int().nullish() });

function choicesAsked({ body }: QueuedCall): number {
  return choicesSchema.parse(JSON.parse(body)).n ?? 1;
}

/** What the backend reported, else counted by tokenizer and marked as such (API D5). */
async function usageOf(
  job: QueuedCall,
  reported: BackendAnswer['usage'],
  text: ChunkConverter['text'],
): Promise<Usage> {
  if (reported !== undefined) return { ...reported, estimated: false };
  const { sample, characters } = text();
  const counted = await countTokens(sample);
  const completionTokens = Math.ceil(counted * Math.max(1, characters / Math.max(1, sample.length)));
  return { ...(await promptUsage(job)), completionTokens };
}

/** The prompt and nothing else, counted by tokenizer. */
export async function promptUsage({ body }: QueuedCall): Promise<Usage> {
  return { promptTokens: await countPromptTokens(body), completionTokens: 0, cachedTokens: 0, estimated: true };
}

/** What a client whose stream has begun is told when its backend breaks off (API D4). */
export function interrupted(): ApiError {
  return new ApiError('UPSTREAM_INTERRUPTED', 'The model server broke off before its answer was complete.');
}
