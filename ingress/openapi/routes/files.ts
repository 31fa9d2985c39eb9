import { filesQuery } from '../../routes/files.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const file = {
  id: 'file-01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  object: 'file',
  bytes: 1_024,
  created_at: 1_767_225_600,
  expires_at: 1_769_817_600,
  filename: 'requests.jsonl',
  purpose: 'batch',
  status: 'processed',
} as const;

export const fileRoutes = {
  'POST /v1/files': {
    id: 'uploadFile',
    tag: 'Files',
    summary: 'Upload the input of a batch',
    description: `A form of \`purpose\`, which is \`batch\`, and one \`file\` of JSON lines:
\`{"custom_id": "…", "method": "POST", "url": "/v1/chat/completions", "body": {…}}\`.`,
    credential: 'account',
    body: { schema: 'FileUpload', form: true },
    answer: { description: 'The file.', schema: 'File', example: file },
    refusals: [...refusedHead.key, ...refusedBody, 'CONFLICT', 'rate_limit_exceeded'],
    limits: ['concurrency_limit'],
  },
  'GET /v1/files': {
    id: 'listFiles',
    tag: 'Files',
    summary: "List the account's files",
    credential: 'account',
    query: filesQuery,
    answer: {
      description: 'A page of files.',
      schema: 'FileList',
      example: { object: 'list', data: [file], first_id: file.id, last_id: file.id, has_more: false },
    },
    refusals: refusedHead.key,
  },
  'GET /v1/files/:file': {
    id: 'retrieveFile',
    tag: 'Files',
    summary: 'Retrieve what is known of a file',
    credential: 'account',
    answer: { description: 'The file.', schema: 'File', example: file },
    refusals: [...refusedHead.key, 'NOT_FOUND'],
  },
  'GET /v1/files/:file/content': {
    id: 'retrieveFileContent',
    tag: 'Files',
    summary: 'Download a file',
    description: 'A download that can not go on is cut off before its `Content-Length`.',
    credential: 'account',
    answer: { description: 'Its bytes.', schema: 'bytes' },
    refusals: [...refusedHead.key, 'NOT_FOUND'],
  },
  'DELETE /v1/files/:file': {
    id: 'deleteFile',
    tag: 'Files',
    summary: 'Delete a file',
    description: '`CONFLICT` while a batch that is not over has it as its input.',
    credential: 'account',
    answer: {
      description: 'It is gone.',
      schema: 'DeletedFile',
      example: { id: file.id, object: 'file', deleted: true },
    },
    refusals: [...refusedHead.key, 'NOT_FOUND', 'CONFLICT'],
  },
} as const satisfies RouteDescriptions;
