import { randomUUID } from 'node:crypto';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import { answerIdIn } from '../../shared/endpoints/answers/with-missing.ts';
import type {
  AnswerFormat,
  StreamFormat,
  StreamOptions,
  StreamProgress,
  VectorFormat,
  WholeAnswer,
} from '../../shared/endpoints/definition/answer-format.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import { ApiError } from '../../shared/errors.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import { isAssembled } from '../backend-client/body-for.ts';
import type { BackendCall, CallBackend, StreamReader } from '../backend-client/call-backend.ts';
import { wholeText } from '../backend-client/read-body.ts';
import type { AnswerBody } from '../replies/send-pieces.ts';
import type { ReplySender } from '../replies/send-reply.ts';
import { promptsOf, usageOf } from './answer-usage.ts';
import { createOutputGuard, type OutputGuard } from './output-guard.ts';

type Options = {
  job: QueuedCall;
  call: BackendCall;
  callBackend: CallBackend;
  reply: Pick<ReplySender, 'chunk'>;
  /** Called before the backend is called, if its answer comes as a stream. */
  onCalling: (received: UsageCounter) => void;
  /**
   * Called at the first token. `id`: the backend's id of the answer. With `isDelivered`, text is sent to the client: from then on, no other
   * backend can take over.
   */
  onFirstToken: (token: { isDelivered: boolean; id: string | undefined }) => void;
};

/** Returns the usage of what this worker has received of the answer up to now. */
export type UsageCounter = () => Promise<TokenUsage>;

/**
 * The content of the last reply: usage, and the `body` of a whole answer. `finalEvents`: those that end a streamed answer. They can say
 * that it is complete, so they are sent only with its end.
 */
export type Answer = { body?: AnswerBody; finalEvents?: string; usage: TokenUsage };

/**
 * `isOverLimit`: the backend exceeded the output limit, and the rest is neither delivered nor charged. `id`: the backend's id of the
 * answer.
 */
export type RunAnswer = Answer & { isOverLimit: boolean; id: string | undefined };

/** Gets the whole answer from one backend. Fails with `BackendError`; nothing was sent then. */
export async function answerWhole(answering: Options): Promise<RunAnswer> {
  const { job, call, callBackend } = answering;
  const format = endpointAt(job.endpoint).answer;
  const guard = createOutputGuard(job);
  if (format.vectors !== undefined) return answerVectors(answering, format, format.vectors);
  const given = job.assembled
    ? await assemble(answering, format, guard)
    : { isCut: false, answer: format.parse(await callBackend.whole(call, wholeText())) };
  const used = await usageOf(job, guard.hasPassedOurs() ? undefined : given.answer.usage, () => {
    const sample = format.writtenIn(given.answer);
    return { sample, characters: sample.length };
  });
  const share = guard.shareWithin(used);
  const usage = guard.capped(used);
  const answer = share < 1 ? format.cut(given.answer, share) : given.answer;
  const body = format.present(answer, usage, optionsOf(answering));
  return { body, usage, id: answerIdIn(given.answer.answer), isOverLimit: given.isCut || share < 1 };
}

/** Vectors pass as bytes. Such an answer has no text of the model, and no output limit. */
async function answerVectors(answering: Options, format: AnswerFormat, vectors: VectorFormat): Promise<RunAnswer> {
  const { job, call, callBackend } = answering;
  const cut = await callBackend.whole(call, vectors.createCutter(`${randomUUID()} `));
  const answer = format.parse(cut.text);
  const usage = await usageOf(job, answer.usage, () => ({ sample: '', characters: 0 }));
  const body = cut.join(
    format.present(answer, usage, optionsOf(answering)),
    await vectors.encode(cut.vectors, { payload: job.payload, budget: call.room }),
  );
  return { body, usage, id: answerIdIn(answer.answer), isOverLimit: false };
}

function optionsOf({ job, call }: Pick<Options, 'job' | 'call'>): StreamOptions {
  return {
    model: job.requestedModel ?? job.model,
    requestId: job.requestId,
    createdAt: Math.floor(Date.now() / 1_000),
    budget: call.room,
    choices: job.choices,
    prompts: promptsOf(job),
  };
}

type AssembledAnswer = { isCut: boolean; answer: WholeAnswer };

async function assemble(answering: Options, format: AnswerFormat, guard: OutputGuard): Promise<AssembledAnswer> {
  const { job, call, callBackend, onCalling, onFirstToken } = answering;
  const assembly = format.stream?.assembly;
  if (assembly === undefined) throw new Error(`answers of ${job.endpoint} cannot be assembled`);
  const assembler = assembly.create(optionsOf(answering));
  onCalling(async () => {
    const reported = guard.hasPassedOurs() ? undefined : assembler.usage();
    return guard.capped(await usageOf(job, reported, assembler.text));
  });
  const { whole, isCut } = await readStream(
    { call, callBackend },
    {
      isWhole: !isAssembled(job, call.backend),
      begun: assembler.begun,
      take(data) {
        const before = assembler.begun();
        assembler.take(data);
        if (!before && assembler.begun()) onFirstToken({ isDelivered: false, id: assembler.id() });
        return isPassed(guard, assembler, job);
      },
      hasText: () => assembler.written().text !== '',
      complete: () => assembler.complete(() => job.choices),
    },
  );
  if (isCut) assembler.cut(job.choices);
  return { isCut, answer: whole === undefined ? assembler.answer() : format.parse(whole) };
}

/**
 * Streams the answer of one backend to the client, except its final events. Fails with `BackendError`: before `onFirstToken`, nothing was
 * sent. After it, the client has a part of the answer, and needs an error.
 */
export async function answerStream(answering: Options): Promise<RunAnswer> {
  const { job, call, callBackend, reply, onCalling, onFirstToken } = answering;
  const guard = createOutputGuard(job);
  const { answer: format } = endpointAt(job.endpoint);
  const converter = streamFormatOf(format).convert(optionsOf(answering));
  const used = () => usageOf(job, guard.hasPassedOurs() ? undefined : converter.usage(), converter.text);
  onCalling(async () => guard.capped(await used()));
  const send = (ready: string) => reply.chunk(ready, guard.cappedTokens(converter.tokensWritten()));
  let hasBegun = false;
  const begin = () => {
    if (!hasBegun) onFirstToken({ isDelivered: true, id: converter.id() });
    hasBegun = true;
  };
  const deliver = (ready: string) => (ready !== '' && send(ready)?.then(() => false)) || false;
  const take = (data: string) => {
    const ready = converter.take(data);
    if (converter.begun()) begin();
    // What exceeds the limit is not delivered.
    const passed = isPassed(guard, converter, job);
    return typeof passed === 'boolean'
      ? passed || deliver(ready)
      : passed.then((isOver) => isOver || call.signal.aborted || deliver(ready));
  };
  const complete = () => converter.complete(() => job.choices);
  const hasText = () => converter.written().text !== '';
  const reader = { isWhole: false, begun: converter.begun, hasText, take, complete };
  const read = await readStream({ call, callBackend }, reader);
  const isCut = read.whole === undefined ? read.isCut : await takeAll(format, read.whole, { take, complete });
  if (isCut) {
    begin();
    await send(converter.cut(job.choices));
  }
  const all = await used();
  const usage = guard.capped(all);
  const finalEvents = converter.end(usage, job);
  return { usage, finalEvents, id: converter.id(), isOverLimit: isCut || guard.shareWithin(all) < 1 };
}

function streamFormatOf({ stream }: AnswerFormat): StreamFormat {
  if (stream === undefined) throw new Error('answers of this endpoint cannot be streamed');
  return stream;
}

/** Takes the events of an answer that came whole, which its end completes as `[DONE]` does. True if the rest was cut. */
async function takeAll(
  format: AnswerFormat,
  text: string,
  { take, complete }: Pick<EventsReader, 'take' | 'complete'>,
): Promise<boolean> {
  const events = streamFormatOf(format).eventsOf(format.parse(text));
  for (const data of [...events, '[DONE]']) if (await take(data)) return true;
  requireComplete(complete);
  return false;
}

function requireComplete(complete: EventsReader['complete']): void {
  if (!complete()) throw new BackendError('interrupted', 'the answer ended before it was complete');
}

/** Whether the answer exceeds its limit. An answer that is complete and has no more text does not. */
function isPassed(guard: OutputGuard, progress: StreamProgress, job: QueuedCall): boolean | Promise<boolean> {
  const written = progress.written();
  const goesOn = () => written.text !== '' || !progress.complete(() => job.choices);
  const passes = guard.passes(written);
  return typeof passes === 'boolean' ? passes && goesOn() : passes.then((isOver) => isOver && goesOn());
}

type EventsReader = Omit<StreamReader, 'takeWhole'> & { complete(): boolean };

/** `isCut`: the stream was cut before its end. `whole`: the text of an answer that came in one JSON. */
async function readStream(
  { call, callBackend }: Pick<Options, 'call' | 'callBackend'>,
  reader: EventsReader,
): Promise<{ isCut: boolean; whole?: string }> {
  let whole = '';
  const takeWhole = (text: string) => {
    whole = text;
  };
  try {
    const end = await callBackend.stream(call, { ...reader, takeWhole });
    if (end === 'whole') return { isCut: false, whole };
    if (end === 'cut') return { isCut: true };
  } catch (error) {
    // A complete answer stays complete, even if its connection fails afterwards.
    if (!(error instanceof BackendError && reader.complete())) throw error;
  }
  requireComplete(reader.complete);
  return { isCut: false };
}

/** The error for a client whose stream has begun when its backend breaks off. */
export function interrupted(): ApiError {
  return new ApiError('UPSTREAM_INTERRUPTED', 'The model server broke off before its answer was complete.');
}
