// lunr takes the dashes of a query such as `--precision` for "without": the search's worker gets the words alone.
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (typeof message?.data === "string") {
    message = { ...message, data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1") };
  }
  return post.call(this, message, ...rest);
};
