// Plain JavaScript, so that any Node can read it and say what is wrong instead of failing on the first type.
const major = Number(process.versions.node.split('.')[0]);
if (major !== 24) {
  console.error(
    `This project runs on Node 24, and this is Node ${process.versions.node}. ` +
      '`npm ci` brings the right one along (not with --omit=optional): start it by `npm start`, or by node_modules/.bin/node.',
  );
  process.exit(1);
}
