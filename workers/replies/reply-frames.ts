import { encodeFrame, type Reply } from '../../shared/jobs/replies.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import { atEndOfTurn } from '../../shared/redis/observe-connection.ts';

const script = loadLua(new URL('./append-entry.lua', import.meta.url), {
  keys: 'stream',
  args: 'lengthMax ...fields',
});

/** A reply that waits in a frame, or was sent with it. */
export interface PostedReply {
  /** False if the stream is gone. Fails as Redis does. */
  sent: Promise<boolean>;
  /** Adds text to the last of the replies, and sets its tokens. False if that is no chunk or was sent, or if its frame has no room. */
  add(text: string, tokens: number): boolean;
}

/** Each frame costs a command, a wake-up and a read (contract.md#p2-frames, decisions.md#frames). Text waits this long for more text. */
const gatherMs = 5;
/** Larger replies are sent alone. In UTF-16 code units. */
const frameCharactersMax = 65_536;
const frameRepliesMax = 256;
/** The approximate bound of a stream. An ingress that reads too late finds a gap. */
const streamEntriesMax = 20_000;
const streamCharactersMax = 134_217_728;
/** If there are more, idle ones are forgotten. */
const streamsKeptMax = 1_000;

type Frame = { replies: Reply[]; characters: number; isUrgent: boolean; sent: PromiseWithResolvers<boolean> };

/** `entryCharacters`: the average of the latest entries. `appending`: settles when all frames so far are in the stream. */
type Stream = {
  key: string;
  frame: Frame | undefined;
  sentAt: number;
  timer: NodeJS.Timeout | undefined;
  entryCharacters: number;
  appending: Promise<unknown> | undefined;
};

/** Sends the replies of all runs of this worker to the ingresses that wait for them. */
export function createReplyFrames(deps: { redis: Redis; charactersMax?: number; now?: () => number }) {
  const { redis, charactersMax = streamCharactersMax, now = () => performance.now() } = deps;
  const streams = createStreams();
  const append = createAppend({ redis, charactersMax, onGone: streams.forget });

  function frameFor(stream: Stream, replies: number, characters: number): Frame {
    const { frame } = stream;
    if (frame !== undefined) {
      const hasRoom = frame.replies.length + replies <= frameRepliesMax;
      if (hasRoom && frame.characters + characters <= frameCharactersMax) return frame;
      send(stream, frame);
    }
    const sent = Promise.withResolvers<boolean>();
    sent.promise.catch(() => {}); // senders handle it where they await it
    stream.frame = { replies: [], characters: 0, isUrgent: false, sent };
    return stream.frame;
  }

  function schedule(stream: Stream, frame: Frame, isUrgent: boolean): void {
    if (frame.isUrgent) return;
    const waitMs = stream.sentAt + gatherMs - now();
    frame.isUrgent = isUrgent || waitMs <= 0;
    if (frame.isUrgent) atEndOfTurn(() => sendInTurn(stream, frame), 'gather');
    else stream.timer ??= setTimeout(() => sendInTurn(stream, frame), waitMs);
  }

  /** A frame that has to wait takes in what is posted meanwhile. */
  function sendInTurn(stream: Stream, frame: Frame): void {
    if (stream.appending === undefined) send(stream, frame);
    else void stream.appending.then(() => send(stream, frame));
  }

  function send(stream: Stream, frame: Frame): void {
    if (stream.frame !== frame) return;
    clearTimeout(stream.timer);
    stream.timer = undefined;
    stream.frame = undefined;
    stream.sentAt = now();
    frame.sent.resolve(append(stream, frame));
  }

  return {
    /**
     * Sends these replies to this stream, all in the next frame: urgent ones at the end of this turn of the event loop, others at most 5 ms
     * after the last frame. Replies to one stream keep their order.
     */
    post(replyTo: string, replies: readonly Reply[], { isUrgent }: { isUrgent: boolean }): PostedReply {
      const stream = streams.get(replyTo);
      const characters = replies.reduce((sum, reply) => sum + charactersOf(reply), 0);
      const frame = frameFor(stream, replies.length, characters);
      frame.replies.push(...replies);
      frame.characters += characters;
      if (frame.characters >= frameCharactersMax) send(stream, frame);
      else schedule(stream, frame, isUrgent);
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
      const stream = {
        key,
        frame: undefined,
        sentAt: Number.NEGATIVE_INFINITY,
        timer: undefined,
        entryCharacters: 0,
        appending: undefined,
      };
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
