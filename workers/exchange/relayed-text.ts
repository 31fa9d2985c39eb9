import { isIPv6 } from 'node:net';
import { publishedFields } from '../../shared/chat-call/chat-completion.ts';

const relayedLengthMax = 500;
/** Of a longer text the rest is not even looked at. */
const readLengthMax = 2_000;

const [secret, address, path] = ['[key]', '[address]', '[path]'];

/**
 * A backend's own words as they may leave the worker, for a client or the log: without the key that it was called with, without
 * anything else that looks like a credential, without addresses and absolute paths. At most 500 characters, empty if none are left.
 */
export function relayedText(text: string, apiKey: string | undefined): string {
  const read = beginningOf(withoutKey(text.replace(invisible, ''), apiKey));
  return withoutAddresses(withoutPaths(withoutSecrets(read)))
    .slice(0, relayedLengthMax)
    .trim();
}

/** Control and format characters except white space: between two letters of a key they would hide it. */
const invisible = /[^\P{C}\s]/gu;

/** A shorter one is none; cut out, it would take letters out of words. */
const keyLengthMin = 4;
/** A text may be cut within the key: this much of its beginning gives it away. */
const keyBeginning = 8;

/** On the whole text, before any of it is cut off. */
function withoutKey(text: string, apiKey: string | undefined): string {
  if (apiKey === undefined || apiKey.length < keyLengthMin) return text;
  const encoded = encodeURIComponent(apiKey);
  const cut = text.replaceAll(apiKey, secret).replaceAll(encoded, secret);
  if (apiKey.length < 2 * keyBeginning) return cut;
  const beginning = apiKey.slice(0, keyBeginning).replace(/[^\w\s]/g, '\\$&');
  return cut.replace(new RegExp(`${beginning}[^\\s"']*`, 'g'), secret);
}

/** Up to the last space: half a credential would not be known for one. */
function beginningOf(text: string): string {
  return text.length <= readLengthMax ? text : text.slice(0, readLengthMax).replace(/\S+$/, '');
}

const url = /\b[a-z][a-z0-9+.-]*:\/\/\S+/gi;
const authorization =
  /\b(?:(bearer)(?:\s+|%20|\+)[^\s"',;]+|(basic|digest|negotiate)\s+(?=[A-Za-z0-9+/]*[\d=])[A-Za-z0-9+/=]{8,})/gi;
const named =
  /\b((?:x-)?(?:api|access|secret|auth|private)[-_ ]?(?:key|token)|(?:client[-_ ]?)?secret|password|passwd|pwd|authorization|credentials?)((?:\s+\w+){0,2}["']?\s*[:=]\s*["']?)[^\s"',;&]+/gi;
/** By what issuers put in front of their keys. */
const prefixed =
  /(?<![A-Za-z0-9])(?:(?:sk|pk|rk|svc)[-_][\w*-]{6,}|(?:gsk|xai|ghp|gho|ghu|ghs|github_pat|glpat|nvapi|pplx|r8|hf|xox[abprs])[-_](?=[\w-]*\d)[\w-]{12,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}(?:\.[\w-]+)*)/g;
const longRun = /[A-Za-z0-9+/_=-]{20,}/g;

function withoutSecrets(text: string): string {
  return text
    .replace(url, address)
    .replace(authorization, (_text, bearer?: string, other = '') => `${bearer ?? other} ${secret}`)
    .replace(named, (_text, name: string, between: string) => `${name}${between}${secret}`)
    .replace(prefixed, secret)
    .replace(longRun, (run) => (isRandom(run) ? secret : run));
}

/**
 * Whether it looks drawn at random (base64, hexadecimal): capitals, small letters and digits take turns far more often than in a
 * name, such as that of a model, a class or a field.
 */
function isRandom(run: string): boolean {
  if (/[0-9a-f]{32,}|[0-9A-F]{32,}/.test(run)) return true;
  const unbroken = /[A-Za-z0-9]{24,}/.exec(run)?.[0] ?? '';
  if (/[A-Za-z]/.test(unbroken) && (unbroken.match(/\d+/g) ?? []).length >= 3) return true;
  const kinds = run
    .replace(/[^A-Za-z0-9]+/g, ' ')
    .replace(/\d/g, '0')
    .replace(/[A-Z]/g, 'A')
    .replace(/[a-z]/g, 'a');
  const pairs = [...kinds.slice(1)].map((kind, index) => [kinds[index], kind]).filter((pair) => !pair.includes(' '));
  const changes = pairs.filter(([one, other]) => one !== other).length;
  return pairs.length >= 15 && changes / pairs.length >= 0.35;
}

const windowsPath = /(?<![A-Za-z0-9])[A-Za-z]:[\\/][^\s"'<>|]*|\\\\[\w.-]+\\[^\s"'<>|]+/g;
const unixPath = /(?<![\w)\]}>.:/~*-])~?(?:\/[\w.@+%~-]+){2,}\/?|(?<![\w)\]}>.:/~*-])~?\/[\w@+%~-]+\.[\w.]+/g;
const apiPath = /^\/v\d+(?:\/[a-z_]+){1,2}$/;

/** Absolute ones, but not those of this API, nor those of a field (`/messages/0/content`, RFC 6901). */
function withoutPaths(text: string): string {
  return text
    .replace(windowsPath, path)
    .replace(unixPath, (found) =>
      apiPath.test(found) || publishedFields.has(found.split('/')[1] ?? '') ? found : path,
    );
}

const withUser = /[^\s:@/"']+:[^\s@/"']+@[\w.-]+(?::\d{1,5})?/g;
const bracketed = /\[([^\]\s]{2,64})\](?::\d{1,5})?/g;
const colonsAndDigits = /(?<![\w:.])[0-9a-f:.]*:[0-9a-f:.]*[0-9a-f](?:%\w+)?(?!\w)/gi;
const ipv4 = /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b/g;
const hostAndPort = /(?<![\w.-])(?=[\w.-]*[a-z])[\w-]+(?:\.[\w-]+)*:(?:80|443|\d{4,5})\b/gi;
/** Names that end as those of hosts do; any dotted word would be too many, for paths of fields have dots, too. */
const hostName =
  /(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:internal|local|lan|localdomain|cluster|svc|corp|home|com|net|org|io|ai|dev|cloud)\b/gi;

/** Times and field paths stay as they are. */
export function withoutAddresses(text: string): string {
  return text
    .replace(url, address)
    .replace(withUser, address)
    .replace(bracketed, (found, inner: string) => (isIPv6(inner) ? address : found))
    .replace(colonsAndDigits, (found) => (/\d/.test(found) && isIPv6(found) ? address : found))
    .replace(ipv4, address)
    .replace(hostAndPort, address)
    .replace(hostName, address);
}
