import { type ApiError, replyLost } from '../../shared/errors.ts';
import {
  encodeFrame,
  packError,
  type Reply,
  type ReplyContent,
  type RunProgress,
  type TokenUsage,
} from '../../shared/jobs/replies.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import { atEndOfTurn } from '../../shared/redis/observe-connection.ts';
import { type AnswerBody, bytesOfBody, type PieceOptions, sendPieces, textOfBody } from './send-pieces.ts';

/** Sends the replies of one run of a job to its ingress, in order and numbered. */
export interface ReplySender {
  /** Is sent before the next reply, after at most 10 ms. It is left out if the next reply is the last one. */
  started(control: string, queueMs: number): void;
  /**
   * Text for the client, and at least how many tokens the model has written up to its end. It is sent at the end of this turn of the event
   * loop. If a promise is returned, await it before sending more.
   */
  chunk(text: string, tokens: number): Promise<void> | undefined;
  /**
   * Both resolve when the reply is in the stream, or when that stream has no reader any more. `finalEvents` arrive together with the end,
   * or not at all: after an event that says that the stream is complete, no error may come. A large body is sent in pieces, as its client
   * reads it.
   */
  end(data: { body?: AnswerBody; finalEvents?: string; usage: TokenUsage }): Promise<void>;
  error(error: ApiError): Promise<void>;
  /** Text of an earlier run was sent, so this run must not begin. */
  interrupted(promptTokens: number): Promise<void>;
}

/** A larger body is sent in pieces. */
const wholeBytesMax = 65_536;
const openingMs = 10;
/** Less than an ingress buffers for one client, for any characters: all of it may arrive at once. Final events are not counted. */
const unsentCharactersMax = 262_144;

type PostOptions = {
  frames: ReplyFrames;
  replyTo: string;
  requestId: string;
  run: number;
  /** The ingress is gone, and its client with it. Called at most once. */
  onGone: () => void;
};

type SenderOptions = PostOptions & {
  /** The first text is about to be sent. */
  onFirstText?: () => void;
  /** Is sent with the first text, or else with the last reply. */
  served?: () => RunProgress | undefined;
  /** Left out if no body is sent. */
  pieces?: PieceOptions;
};

/** The text that was posted last, and its length. */
type WaitingText = { characters: number; posted: PostedReply };

export function createReplySender(deps: SenderOptions): ReplySender {
  const { onFirstText, served = () => undefined } = deps;
  const { post, latest, isGone } = createPost(deps);
  let latestText: WaitingText | undefined;
  let tokensSent = 0;
  let unsent = 0;

  const opening = createOpening((content) => post([content]));

  /** The last reply needs no opening before it: it has all that the ingress still needs. */
  function sendLast(content: ReplyContent): Promise<void> {
    opening.take();
    if (!isGone()) post([latestText === undefined ? withServed(content, served()) : content]);
    return latest();
  }

  function sendEnd(finalEvents: string, ending: ReplyContent): Promise<void> {
    if (isGone() || finalEvents === '') return sendLast(ending);
    post([...textReplies(finalEvents, tokensSent), ending]);
    return latest();
  }

  async function sendPiece(data: string, bytes: number): Promise<void> {
    if (!isGone()) post([...opening.take(), { kind: 'piece', data, bytes }]);
    await latest();
  }

  async function sendInPieces(body: AnswerBody, usage: TokenUsage): Promise<void> {
    if (deps.pieces === undefined) throw new Error('this run sends no bodies');
    const isSent = await sendPieces(body, { ...deps.pieces, request: deps.requestId }, sendPiece);
    await sendLast(isSent ? { kind: 'end', data: { usage } } : { kind: 'error', data: packError(replyLost(true)) });
  }

  function sendBody(body: AnswerBody, usage: TokenUsage): Promise<void> {
    if (bytesOfBody(body) > wholeBytesMax) return sendInPieces(body, usage);
    return sendLast({ kind: 'end', data: { body: textOfBody(body), usage } });
  }

  /** A chunk, after the opening unless that was sent. */
  function textReplies(text: string, tokens: number): ReplyContent[] {
    const content: ReplyContent = { kind: 'chunk', data: text, tokens };
    if (latestText !== undefined) return [content];
    onFirstText?.();
    return [...opening.take(), withServed(content, served())];
  }

  function postText(text: string, tokens: number): void {
    const onSettled = () => {
      unsent -= waiting.characters;
    };
    const waiting: WaitingText = { characters: text.length, posted: post(textReplies(text, tokens), onSettled) };
    latestText = waiting;
  }

  return {
    started: (control, queueMs) => opening.sendLater({ kind: 'started', data: { control, queueMs } }),
    chunk(text, tokens) {
      if (isGone() || text === '') return undefined;
      tokensSent = tokens;
      unsent += text.length;
      if (latestText?.posted.add(text, tokens)) latestText.characters += text.length;
      else postText(text, tokens);
      return unsent > unsentCharactersMax ? latest() : undefined;
    },
    end: ({ finalEvents = '', body, usage }) =>
      body === undefined ? sendEnd(finalEvents, { kind: 'end', data: { usage } }) : sendBody(body, usage),
    error: (error) => sendLast({ kind: 'error', data: packError(error) }),
    interrupted: (promptTokens) => sendLast({ kind: 'interrupted', data: { promptTokens } }),
  };
}

/** Posts replies in order and numbered, until the ingress is gone. `latest`: settles when all of them are in the stream. */
function createPost({ frames, replyTo, requestId, run, onGone }: PostOptions) {
  let sequence = 0;
  let gone = false;
  let latest: Promise<unknown> = Promise.resolve();

  function noteSent(isThere: boolean): void {
    if (isThere || gone) return;
    gone = true;
    onGone();
  }

  return {
    latest: async (): Promise<void> => void (await latest),
    isGone: () => gone,
    /** `onSettled` is called when they are in the stream, or cannot be sent. */
    post(contents: readonly ReplyContent[], onSettled = () => {}): PostedReply {
      const replies = contents.map((content) => ({ request: requestId, run, sequence: sequence++, ...content }));
      const posted = frames.post(replyTo, replies, (isThere) => {
        onSettled();
        noteSent(isThere);
      });
      latest = posted.sent;
      return posted;
    },
  };
}

/** The first reply, which waits for a while for the next one. */
function createOpening(post: (content: ReplyContent) => void) {
  let waiting: { content: ReplyContent; timer: NodeJS.Timeout } | undefined;

  function take(): ReplyContent[] {
    if (waiting === undefined) return [];
    const { content, timer } = waiting;
    clearTimeout(timer);
    waiting = undefined;
    return [content];
  }

  return {
    sendLater(content: ReplyContent): void {
      waiting = { content, timer: setTimeout(() => take().forEach(post), openingMs) };
    },
    /** Cancels it, if it was not sent yet, and returns it. */
    take,
  };
}

function withServed(content: ReplyContent, served: RunProgress | undefined): ReplyContent {
  return served === undefined ? content : { ...content, served };
}

const script = loadLua(new URL('./append-entry.lua', import.meta.url), {
  keys: 'stream',
  args: 'lengthMax ...fields',
});

/** Replies that wait in a frame, or were sent with it. */
export interface PostedReply {
  /** False if the stream is gone. Fails as Redis does. */
  sent: Promise<boolean>;
  /** Adds text to the last of the replies, and sets its tokens. False if that is no chunk or was sent, or if its frame has no room. */
  add(text: string, tokens: number): boolean;
}

/** Larger replies are sent alone. In UTF-16 code units. */
const frameCharactersMax = 65_536;
const frameRepliesMax = 256;
/** The approximate bound of a stream. An ingress that reads too late finds a gap. */
const streamEntriesMax = 20_000;
const streamCharactersMax = 134_217_728;
/** If there are more, idle ones are forgotten. */
const streamsKeptMax = 1_000;

/** `isThere`: false if the stream is gone. True if that is not known, because Redis did not take the frame. */
type OnSettled = (isThere: boolean) => void;
type Frame = {
  replies: Reply[];
  characters: number;
  settled: OnSettled[];
  sent: PromiseWithResolvers<boolean>;
};

/** `entryCharacters`: the average of the latest entries. `appending`: settles when all frames so far are in the stream. */
type Stream = {
  key: string;
  frame: Frame | undefined;
  entryCharacters: number;
  appending: Promise<unknown> | undefined;
};

/**
 * Sends the replies of all runs of this worker to the ingresses that wait for them: to each in one frame at the end of a turn of the event
 * loop, because a frame costs a command, a wake-up and a read (contract.md#p2-frames, decisions.md#frames).
 */
export function createReplyFrames({
  redis,
  charactersMax = streamCharactersMax,
}: {
  redis: Redis;
  charactersMax?: number;
}) {
  const streams = createStreams();
  const append = createAppend({ redis, charactersMax, onGone: streams.forget });

  function frameFor(stream: Stream, replies: number, characters: number): Frame {
    const { frame } = stream;
    if (frame !== undefined) {
      const hasRoom = frame.replies.length + replies <= frameRepliesMax;
      if (hasRoom && frame.characters + characters <= frameCharactersMax) return frame;
      send(stream, frame);
    }
    return openFrame(stream);
  }

  function openFrame(stream: Stream): Frame {
    const frame: Frame = { replies: [], characters: 0, settled: [], sent: Promise.withResolvers() };
    const settle = (isThere: boolean) => {
      for (const onSettled of frame.settled) onSettled(isThere);
    };
    // A failed send is handled where it is awaited.
    frame.sent.promise.then(settle, () => settle(true));
    stream.frame = frame;
    atEndOfTurn(() => sendInTurn(stream, frame), 'gather');
    return frame;
  }

  /** A frame that has to wait takes in what is posted meanwhile. */
  function sendInTurn(stream: Stream, frame: Frame): void {
    if (stream.appending === undefined) send(stream, frame);
    else void stream.appending.then(() => send(stream, frame));
  }

  function send(stream: Stream, frame: Frame): void {
    if (stream.frame !== frame) return;
    stream.frame = undefined;
    frame.sent.resolve(append(stream, frame));
  }

  return {
    /** Sends these replies to this stream, all in the next frame. Replies to one stream keep their order. */
    post(replyTo: string, replies: readonly Reply[], onSettled: OnSettled = () => {}): PostedReply {
      const stream = streams.get(replyTo);
      let characters = 0;
      for (const reply of replies) characters += charactersOf(reply);
      const frame = frameFor(stream, replies.length, characters);
      frame.replies.push(...replies);
      frame.characters += characters;
      frame.settled.push(onSettled);
      if (frame.characters >= frameCharactersMax) send(stream, frame);
      return {
        sent: frame.sent.promise,
        add(text, tokens) {
          const reply = replies.at(-1);
          if (stream.frame !== frame || reply?.kind !== 'chunk') return false;
          if (frame.characters + text.length > frameCharactersMax) return false;
          reply.data += text;
          reply.tokens = tokens;
          frame.characters += text.length;
          return true;
        },
      };
    },
  };
}

export type ReplyFrames = ReturnType<typeof createReplyFrames>;

type Append = (stream: Stream, frame: Frame) => Promise<boolean>;

/** Appends a frame to its stream. Resolves with false if the stream is gone. */
function createAppend(deps: { redis: Redis; charactersMax: number; onGone: (key: string) => void }): Append {
  const { redis, charactersMax, onGone } = deps;

  async function append(stream: Stream, { replies, characters }: Frame): Promise<boolean> {
    const { key } = stream;
    // Other workers write here, too: one large entry of ours must not remove theirs.
    const latest = Math.min(frameCharactersMax, characters);
    stream.entryCharacters += (latest - stream.entryCharacters) / 16;
    const lengthMax = Math.min(streamEntriesMax, Math.ceil(charactersMax / Math.max(1, stream.entryCharacters)));
    const isThere = await appendEntry(redis, key, { fields: encodeFrame(replies), lengthMax });
    if (!isThere && stream.frame === undefined) onGone(key);
    return isThere;
  }

  /** In a cluster, a command that is sent again can be overtaken by the next one, and an ingress takes that for a gap. */
  function appendInTurn(stream: Stream, frame: Frame): Promise<boolean> {
    const appended = Promise.resolve(stream.appending).then(() => append(stream, frame));
    const appending = appended
      .catch(() => {}) // senders handle it
      .then(() => {
        if (stream.appending === appending) stream.appending = undefined;
      });
    stream.appending = appending;
    return appended;
  }

  return redis.isCluster ? appendInTurn : append;
}

/** The streams that replies are sent to, by their keys. */
function createStreams() {
  const streams = new Map<string, Stream>();

  function forgetIdle(): void {
    for (const [key, { frame, appending }] of streams)
      if (frame === undefined && appending === undefined) streams.delete(key);
  }

  return {
    get(key: string): Stream {
      const known = streams.get(key);
      if (known !== undefined) return known;
      if (streams.size >= streamsKeptMax) forgetIdle();
      const stream = { key, frame: undefined, entryCharacters: 0, appending: undefined };
      streams.set(key, stream);
      return stream;
    },
    forget: (key: string) => streams.delete(key),
  };
}

function charactersOf(reply: Reply): number {
  if (reply.kind === 'chunk' || reply.kind === 'piece') return reply.data.length;
  return reply.kind === 'end' ? (reply.data.body?.length ?? 0) : 0;
}

/**
 * Appends an entry to the reply stream of an ingress and trims it to about `lengthMax` entries. False if the stream is gone, and its
 * ingress with it. If Redis is out of memory, a script appends the entry.
 */
async function appendEntry(
  redis: Redis,
  stream: string,
  { fields, lengthMax }: { fields: readonly string[]; lengthMax: number },
): Promise<boolean> {
  try {
    return (await redis.xadd(stream, 'NOMKSTREAM', 'MAXLEN', '~', lengthMax, '*', ...fields)) !== null;
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('OOM '))) throw error;
    return (await loadScript(redis, script)({ stream, lengthMax, fields })) !== null;
  }
}
